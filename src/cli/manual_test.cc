#include "cli/manual.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "base/error.h"
#include "base/testing/temp_dir.h"
#include "cli/command_table.h"
#include "cli/testing/run_captured.h"

namespace butterfly::cli {
namespace {

using ::testing::HasSubstr;

std::string shell(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  std::string out;
  char chunk[4096];
  for (size_t got; (got = std::fread(chunk, 1, sizeof chunk, pipe)) > 0;) out.append(chunk, got);
  return pclose(pipe) == 0 ? out : "failed: " + out;
}

TEST(Manual, BashCompletesCommandsAndFlags) {
  const butterfly::testing::TempDir folder;
  const auto script = folder.write("completion.bash", run({"completion", "bash"}).out);
  const auto completed = [&](const char* words, int at) {
    return shell(fmt::format(
        "bash -c 'source {}; COMP_WORDS=({}); COMP_CWORD={}; _butterfly; echo \"${{COMPREPLY[*]}}\"'",
        script.string(), words, at));
  };
  EXPECT_EQ(completed("butterfly ser", 1), "serve\n");
  EXPECT_EQ(completed("butterfly run --repeat-l", 2), "--repeat-last-n\n");
  EXPECT_EQ(completed("butterfly run model", 2), "\n") << "left to the shell: files";
  EXPECT_EQ(completed("butterfly version --temp", 2), "\n") << "a flag of another command";
}

TEST(Manual, EveryShellKnowsEveryCommand) {
  for (const char* name : {"bash", "zsh", "fish"})
    for (const Command& command : command_table())
      EXPECT_THAT(completion_script(name), HasSubstr(std::string(command.name))) << name;
  EXPECT_THROW(completion_script("tcsh"), Error);
  EXPECT_THAT(run({"completion", "tcsh"}).err, HasSubstr("bash, zsh or fish"));
}

TEST(Manual, APageForEveryCommand) {
  const butterfly::testing::TempDir folder;
  ASSERT_EQ(run({"man-pages", folder.path().string()}).status, 0);
  for (const Command& command : command_table()) {
    std::ifstream in(folder / fmt::format("butterfly-{}.1", command.name));
    const std::string page{std::istreambuf_iterator<char>(in), {}};
    EXPECT_THAT(page, HasSubstr(".SH NAME\n")) << command.name;
    EXPECT_THAT(page, HasSubstr("\\-\\-target")) << command.name;
    EXPECT_EQ(page.find("\n'"), std::string::npos) << "a line that roff would take for a request";
  }
  EXPECT_THAT(man_page("run"), HasSubstr(".B \\-s, \\-\\-seed"));
  EXPECT_THAT(man_page(), HasSubstr(".BR butterfly\\-serve (1)"));
}

}  // namespace
}  // namespace butterfly::cli
