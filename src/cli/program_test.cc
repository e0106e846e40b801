#include "cli/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/json_text.h"
#include "cli/command_table.h"
#include "cli/console/exit_code.h"
#include "cli/testing/run_captured.h"
#include "kernels/simd/target.h"

namespace butterfly::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Program, WithoutArgumentsIsHelp) {
  const Outcome bare = run({});
  EXPECT_EQ(bare.status, kExitOk);
  EXPECT_THAT(bare.out, HasSubstr("Usage: butterfly <command>"));
  EXPECT_EQ(bare.out, run({"help"}).out);
  EXPECT_EQ(bare.out, run({"--help"}).out);
}

TEST(Program, OverviewFitsAScreen) { EXPECT_LE(line_count(run({"help"}).out), 24u); }

TEST(Program, HelpAllNamesEveryCommand) {
  const Outcome all = run({"help", "all"});
  for (const Command& command : command_table()) {
    EXPECT_THAT(all.out, HasSubstr(fmt::format("\n  {} ", command.name)));
  }
}

TEST(Program, EveryCommandHasHelpThatNamesItsEnvironment) {
  for (const Command& command : command_table()) {
    const Outcome asked = run({std::string(command.name), "--help"});
    EXPECT_EQ(asked.status, kExitOk) << command.name;
    EXPECT_THAT(asked.out, HasSubstr(fmt::format("Usage: butterfly {}", command.name)));
    EXPECT_THAT(asked.out, HasSubstr("[BUTTERFLY_TARGET]")) << command.name;
    EXPECT_THAT(asked.err, IsEmpty());
    EXPECT_EQ(asked.out, run({"help", std::string(command.name)}).out);
    EXPECT_LE(command.help.size(), 60u) << command.name;
  }
}

// What a flag takes, in help: nothing, a number, or words.
std::string kind_of(const std::string& flags) {
  const size_t blank = flags.rfind(' ');
  const std::string type = blank == std::string::npos ? "" : flags.substr(blank + 1);
  if (type.empty() || type.starts_with('-')) return "nothing";
  if (type == "VALUE") return "";  // of a training file: of any kind
  return type == "N" || type == "UINT" || type == "INT" || type == "FLOAT" ? "a number" : "words";
}

TEST(Program, AVariableMeansOneThing) {
  std::map<std::string, std::string> kinds;
  for (const Command& command : command_table()) {
    std::string help = run({std::string(command.name), "--help"}).out;
    for (size_t at; (at = help.find("\n" + std::string(20, ' '))) != std::string::npos;)
      help.replace(at, 21, "");  // lines that go on
    std::istringstream lines(help);
    for (std::string line; std::getline(lines, line);) {
      const size_t open = line.rfind("[BUTTERFLY_"), begin = line.find_first_not_of(' ');
      if (open == std::string::npos || begin == std::string::npos || line[begin] != '-') continue;
      const std::string flags = line.substr(begin, line.find("  ", begin) - begin), kind = kind_of(flags);
      if (kind.empty()) continue;
      const std::string name = line.substr(open + 1, line.find(']', open) - open - 1);
      const auto [row, fresh] = kinds.emplace(name, kind);
      EXPECT_EQ(row->second, kind) << name << " of " << command.name << ": " << flags;
    }
  }
  EXPECT_EQ(kinds.at("BUTTERFLY_CLUSTER"), "nothing");
  EXPECT_EQ(kinds.at("BUTTERFLY_PROMPT"), "words");
  EXPECT_EQ(kinds.at("BUTTERFLY_PLAN_PROMPT"), "a number");
}

TEST(Program, HelpShowsTypesWhole) {
  EXPECT_THAT(run({"run", "--help"}).out, HasSubstr("FILE[:SCALE]"));
  EXPECT_THAT(run({"token", "--help"}).out, HasSubstr("HOST[:PORT]"));
}

TEST(Program, VersionIsOneLine) {
  const Outcome version = run({"--version"});
  EXPECT_EQ(version.status, kExitOk);
  EXPECT_THAT(version.out, StartsWith("butterfly 0."));
  EXPECT_THAT(version.out, HasSubstr(kernels::target_name()));
  EXPECT_EQ(line_count(version.out), 1u);
}

TEST(Program, VersionJsonParses) {
  const auto json = json_of_text<nlohmann::json>(run({"version", "--json"}).out);
  EXPECT_EQ(json["target"], kernels::target_name());
  EXPECT_EQ(json["numerics_id"], kernels::kNumericsId);
}

TEST(Program, UnknownCommandSuggestsTheNearest) {
  const Outcome typo = run({"versoin"});
  EXPECT_EQ(typo.status, kExitUsage);
  EXPECT_EQ(typo.err, "butterfly: error: no command 'versoin'\nbutterfly: did you mean 'version'?\n");
  EXPECT_THAT(typo.out, IsEmpty());
  EXPECT_THAT(run({"qqqqqqqq"}).err, Not(HasSubstr("did you mean")));
}

TEST(Program, UnknownFlagIsBadUsage) {
  const Outcome bad = run({"version", "--colour"});
  EXPECT_EQ(bad.status, kExitUsage);
  EXPECT_THAT(bad.err, StartsWith("butterfly: error: version: "));
  EXPECT_THAT(bad.err, HasSubstr("--colour"));
  EXPECT_THAT(bad.err, HasSubstr("see 'butterfly version --help'"));
}

TEST(Program, AMistypedFlagIsNamedAndTheNearestSuggested) {
  const Outcome typo = run({"run", "--tmep", "3"});
  EXPECT_EQ(typo.status, kExitUsage);
  EXPECT_THAT(typo.err, HasSubstr("run: there is no flag '--tmep'"));
  EXPECT_THAT(typo.err, HasSubstr("did you mean '--temp'"));
  EXPECT_THAT(typo.err, Not(HasSubstr("expected: 3")));
  EXPECT_THAT(run({"version", "extra"}).err, HasSubstr("'extra' is one argument too many"));
}

TEST(Program, FlagBeforeTheCommandIsExplained) {
  const Outcome bad = run({"--json", "version"});
  EXPECT_EQ(bad.status, kExitUsage);
  EXPECT_THAT(bad.err, HasSubstr("'--json'"));
}

TEST(Program, TargetComesFromFlagOrEnvironmentAndFlagWins) {
  const std::string before = kernels::target_name();
  const auto target_of = [](const Outcome& outcome) {
    return json_of_text<nlohmann::json>(outcome.out)["target"].get<std::string>();
  };
  EXPECT_EQ(target_of(run({"version", "--json", "--target", "ref"})), "ref");
  kernels::force_target(before);

  setenv("BUTTERFLY_TARGET", "ref", 1);
  EXPECT_EQ(target_of(run({"version", "--json"})), "ref");
  EXPECT_EQ(target_of(run({"version", "--json", "--target", before})), before);
  unsetenv("BUTTERFLY_TARGET");
  kernels::force_target(before);
}

TEST(Program, AnErrorIsOneLineAndItsCodeIsTheStatus) {
  const Outcome bad = run({"version", "--target", "Z80"});
  EXPECT_EQ(bad.status, kExitUsage);
  EXPECT_THAT(bad.err, StartsWith("butterfly: error: "));
  EXPECT_THAT(bad.err, HasSubstr("Z80"));
  EXPECT_EQ(line_count(bad.err), 1u);
}

TEST(ExitCode, InputIsTwoAndTheWorldIsOne) {
  EXPECT_EQ(exit_code_for(Errc::kOk), 0);
  EXPECT_EQ(exit_code_for(Errc::kCorrupt), 2);
  EXPECT_EQ(exit_code_for(Errc::kNotFound), 2);
  EXPECT_EQ(exit_code_for(Errc::kIo), 1);
  EXPECT_EQ(exit_code_for(Errc::kOutOfMemory), 1);
  EXPECT_EQ(exit_code_for(Errc::kCancelled), 130);
}

}  // namespace
}  // namespace butterfly::cli
