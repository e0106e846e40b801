// Runs a command line inside the test, with what it printed.
#pragma once
#include <string>
#include <vector>

namespace butterfly::cli {

struct Outcome {
  int status;
  std::string out;
  std::string err;
};

Outcome run(std::vector<std::string> arguments);

size_t line_count(const std::string& text);

}  // namespace butterfly::cli
