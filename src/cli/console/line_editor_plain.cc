// Where libedit is missing: lines as the terminal gives them.
#include <cstdio>
#include <iostream>

#include "cli/console/interrupt.h"
#include "cli/console/line_editor.h"

namespace butterfly::cli {

struct LineEditor::State {};

LineEditor::LineEditor(std::filesystem::path) : state_(std::make_unique<State>()) {}
LineEditor::~LineEditor() = default;

LineEditor::Outcome LineEditor::read(const std::string& prompt, bool, std::string& line) {
  std::fputs(prompt.c_str(), stderr);
  std::cin.clear();
  if (std::getline(std::cin, line)) return Outcome::kLine;
  return interrupted() ? Outcome::kInterrupted : Outcome::kEnd;
}

void LineEditor::remember(const std::string&) {}

}  // namespace butterfly::cli
