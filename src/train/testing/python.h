// For tests: what a Python script of this repository prints, or why it cannot run.
#pragma once
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

#include "base/testing/source_tree.h"

namespace butterfly::train::testing {

struct PythonRun {
  bool skipped = false;  // it said that what it needs is not installed: exit code 77
  bool good = false;
  std::string text;
};

// Debian's Python, which python3-torch belongs to. `script` is below the source folder, with its arguments.
inline PythonRun run_python(const std::string& script) {
  PythonRun run;
  std::FILE* pipe = popen(("/usr/bin/python3 " + source_path(script).string() + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return run;
  std::array<char, 4096> chunk;
  while (std::fgets(chunk.data(), chunk.size(), pipe) != nullptr) run.text += chunk.data();
  const int status = pclose(pipe);
  run.skipped = WIFEXITED(status) && (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127);
  run.good = status == 0;
  return run;
}

}  // namespace butterfly::train::testing
