// One run of the program: picks the command, parses its flags, runs it, and turns whatever it throws into one
// line.
#pragma once
#include <string>
#include <vector>

namespace butterfly::cli {

// `arguments` without the program's name. Returns the exit status (exit_code.h). Results go to stdout, all
// else to stderr.
int run_program(std::vector<std::string> arguments);

}  // namespace butterfly::cli
