// serve, ps and stop as far as they end by themselves; what runs is tested in server/ and tests/clients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/json_text.h"
#include "base/log.h"
#include "base/testing/temp_dir.h"
#include "cli/console/exit_code.h"
#include "cli/testing/run_captured.h"

namespace butterfly::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct ServeCommandsTest : ::testing::Test {
  ServeCommandsTest() { setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1); }
  ~ServeCommandsTest() override {
    unsetenv("XDG_RUNTIME_DIR");
    set_log_level(LogLevel::kWarn);
  }
  butterfly::testing::TempDir folder;
};

TEST_F(ServeCommandsTest, FlagBeatsEnvironmentBeatsFileBeatsDefault) {
  const std::string file =
      folder.write("s.toml", "port = 1001\nhost = '127.0.0.2'\nqueue = 7\nmodel = ['x.gguf']\n").string();
  setenv("BUTTERFLY_PORT", "1002", 1);
  setenv("BUTTERFLY_QUEUE", "8", 1);
  const Outcome shown = run({"serve", "--config", file, "--queue", "9", "--print-config", "-np", "3"});
  unsetenv("BUTTERFLY_PORT");
  unsetenv("BUTTERFLY_QUEUE");
  ASSERT_EQ(shown.status, kExitOk) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("\nqueue = 9 "));
  EXPECT_THAT(shown.out, HasSubstr("\nport = 1002 "));
  EXPECT_THAT(shown.out, HasSubstr("127.0.0.2"));
  EXPECT_THAT(shown.out, HasSubstr("x.gguf"));
  EXPECT_THAT(shown.out, HasSubstr("\ndrain_time = 60 "));
  EXPECT_THAT(shown.out, HasSubstr("\nparallel = 3 "));
}

TEST_F(ServeCommandsTest, LaunchSetsWhatAToolNeedsAndStartsIt) {
  const std::string path = folder.path().string() + ":/usr/bin:/bin";
  const std::string before = ::getenv("PATH");
  setenv("PATH", path.c_str(), 1);
  const std::vector<std::string> to = {"--url", "http://127.0.0.1:9", "-m", "tiny"};
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.end(), to.begin(), to.end());
    return run(words);
  };
  const Outcome missing = with({"launch", "claude"});
  EXPECT_EQ(missing.status, kExitFailure);
  EXPECT_THAT(missing.err, HasSubstr("npm install -g @anthropic-ai/claude-code"));
  EXPECT_THAT(missing.out, HasSubstr("export ANTHROPIC_BASE_URL='http://127.0.0.1:9'"));
  const std::string seen = (folder / "seen").string();
  for (const char* name : {"claude", "codex", "opencode", "qwen", "aider"}) {
    const auto tool =
        folder.write(name, "#!/bin/sh\nenv > " + seen + "\necho \"$0 $*\" >> " + seen + "\nexit 7\n");
    std::filesystem::permissions(tool, std::filesystem::perms::owner_all);
    EXPECT_EQ(with({"launch", name, "hello"}).status, 7) << "the tool's own status";
    std::ifstream file(seen);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    EXPECT_THAT(text, HasSubstr("http://127.0.0.1:9")) << name;
    EXPECT_THAT(text, HasSubstr("tiny")) << name;
    EXPECT_THAT(text, HasSubstr(" hello\n")) << name;
    EXPECT_THAT(with({"launch", name, "--print"}).out, HasSubstr("tiny")) << name;
  }
  // Agents shorten a conversation before it is too long for the model, where they are told.
  for (const auto& [name, words] :
       {std::pair("claude", "CLAUDE_CODE_AUTO_COMPACT_WINDOW='131072'"),
        std::pair("codex", "'model_context_window=131072'"), std::pair("opencode", "\"context\":131072")})
    EXPECT_THAT(with({"launch", name, "--context", "131072", "--print"}).out, HasSubstr(words)) << name;
  EXPECT_THAT(with({"launch", "codex", "--print"}).out, Not(HasSubstr("model_context_window")));
  setenv("PATH", before.c_str(), 1);
  EXPECT_THAT(run({"launch", "vim"}).err, HasSubstr("expected one of claude, codex"));
  EXPECT_THAT(run({"launch", "claude"}).err, HasSubstr("0 of your servers run here"));
}

TEST_F(ServeCommandsTest, WhatCannotBeServedIsBadUsage) {
  EXPECT_THAT(run({"serve"}).err, HasSubstr("no model to serve"));
  EXPECT_EQ(run({"serve", "-m", "/none.gguf", "--port", "0"}).status, kExitUsage);
  const Outcome open = run({"serve", "-m", "x.gguf", "--host", "0.0.0.0"});
  EXPECT_EQ(open.status, kExitUsage);
  EXPECT_THAT(open.err, HasSubstr("butterfly serve --make-key"));
  EXPECT_EQ(run({"serve", "-m", "x.gguf", "--port", "70000"}).status, kExitUsage);
  EXPECT_EQ(run({"serve", "-m", "x.gguf", "--cache-type", "q2_k"}).status, kExitUsage);
  for (const auto& [groups, strategy, why] : {std::tuple("auto", "uniform", "does not ask what is faster"),
                                              std::tuple("2", "annealing", "makes no groups")})
    EXPECT_THAT(
        run({"serve", "-m", "x.gguf", "--local-nodes=2", "--groups", groups, "--strategy", strategy}).err,
        HasSubstr(why));
}

TEST_F(ServeCommandsTest, AWrittenPlanIsReadBeforeAnythingStarts) {
  const auto refusal = [](std::vector<std::string> more) {
    std::vector<std::string> words{"serve", "-m", "x.gguf"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.status, kExitUsage);
    return outcome.err;
  };
  EXPECT_THAT(refusal({"--cluster", "--strategy", "custom"}),
              HasSubstr("needs a file that says who runs what"));
  EXPECT_THAT(refusal({"--plan", "p.toml"}), HasSubstr("only a cluster has one"));
  EXPECT_THAT(refusal({"--local-nodes=2", "--plan", "p.toml", "--strategy", "uniform"}),
              HasSubstr("exclude each other"));
}

TEST_F(ServeCommandsTest, MakeKeyShowsTheKeyOnceAndKeepsItsHash) {
  const std::string file = (folder / "keys").string();
  const Outcome made = run({"serve", "--make-key", file});
  ASSERT_EQ(made.status, kExitOk) << made.err;
  EXPECT_THAT(made.out, ::testing::StartsWith("bf-"));
  EXPECT_EQ(line_count(made.out), 1u);
  EXPECT_THAT(made.err, Not(HasSubstr(made.out.substr(3, 64))));
  std::ifstream in(file);
  const std::string kept{std::istreambuf_iterator<char>(in), {}};
  EXPECT_THAT(kept, ::testing::StartsWith("sha256:"));
}

TEST_F(ServeCommandsTest, PsAndStopWithoutAServer) {
  const Outcome ps = run({"ps"});
  EXPECT_EQ(ps.status, kExitOk);
  EXPECT_THAT(ps.out, HasSubstr("no server runs"));
  EXPECT_EQ(json_of_text<nlohmann::json>(run({"ps", "--json"}).out), nlohmann::json::array());
  EXPECT_EQ(run({"stop"}).status, kExitUsage);
  EXPECT_EQ(run({"ps", "--port", "1"}).status, kExitUsage);
  EXPECT_EQ(run({"load", "one", "--port", "1"}).status, kExitUsage);
  EXPECT_EQ(run({"unload", "one", "--port", "1"}).status, kExitUsage);
}

}  // namespace
}  // namespace butterfly::cli
