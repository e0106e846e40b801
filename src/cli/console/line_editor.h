// A line typed by a person: arrow keys, history, search (Ctrl-R), paste of several lines. libedit where it is
// built in (Debian's licence allows it everywhere, readline's does not); else plain lines.
#pragma once
#include <filesystem>
#include <memory>
#include <string>

namespace butterfly::cli {

// At the terminal of standard input. One at a time. Not thread-safe.
class LineEditor {
 public:
  // `history`: file for what was typed, only for its owner; empty: kept until the end only.
  explicit LineEditor(std::filesystem::path history);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  enum class Outcome { kLine, kEnd, kInterrupted };  // Enter; Ctrl-D on an empty line; Ctrl-C
  // Without the newline; pasted lines have theirs in between. `colour`: the prompt is coloured.
  Outcome read(const std::string& prompt, bool colour, std::string& line);
  // What the arrow keys bring back. Repetitions are kept once.
  void remember(const std::string& text);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// $XDG_STATE_HOME/butterfly/chat-history, or below ~/.local/state; empty without a home. Makes the folder.
std::filesystem::path chat_history_file();

}  // namespace butterfly::cli
