#include "cli/testing/run_captured.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cli/program.h"

namespace butterfly::cli {

Outcome run(std::vector<std::string> arguments) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int status = run_program(std::move(arguments));
  return {status, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

size_t line_count(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace butterfly::cli
