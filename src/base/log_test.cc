#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/json_text.h"

namespace butterfly {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

// What `fn` writes to stderr.
std::string captured(void (*fn)()) {
  ::testing::internal::CaptureStderr();
  fn();
  return ::testing::internal::GetCapturedStderr();
}

struct LogTest : ::testing::Test {
  void TearDown() override {
    set_log_level(LogLevel::kInfo);
    set_log_format(LogFormat::kText);
  }
};

TEST_F(LogTest, TextHasTimeLevelAndText) {
  const std::string line = captured([] { log_warn("{}: {} tokens", "model.gguf", 12); });
  EXPECT_THAT(line,
              MatchesRegex("[0-9][0-9]:[0-9][0-9]:[0-9][0-9]\\.[0-9]+ warning model.gguf: 12 tokens\n"));
}

TEST_F(LogTest, LevelDecidesWhatIsSeen) {
  const auto all = [] {
    log_debug("first");
    log_info("second");
    log_warn("third");
    log_error("fourth");
  };
  const std::string by_default = captured(all);
  EXPECT_THAT(by_default, Not(HasSubstr("first")));
  EXPECT_THAT(by_default, HasSubstr("second"));
  set_log_level(LogLevel::kDebug);
  EXPECT_THAT(captured(all), HasSubstr("first"));
  set_log_level(LogLevel::kError);
  const std::string errors = captured(all);
  EXPECT_THAT(errors, Not(HasSubstr("third")));
  EXPECT_THAT(errors, HasSubstr("fourth"));
  set_log_level(LogLevel::kOff);
  EXPECT_EQ(captured(all), "");
}

TEST_F(LogTest, JsonIsOneObjectPerLineWhateverTheText) {
  set_log_format(LogFormat::kJson);
  const std::string line = captured([] { log_error("say \"{}\"\nnew\\line \x01 \xff end", "hi"); });
  const auto json = json_of_text<nlohmann::json>(line);
  EXPECT_EQ(json["level"], "error");
  EXPECT_EQ(json["text"], "say \"hi\"\nnew\\line \x01 \xef\xbf\xbd end");
  EXPECT_THAT(json["time"].get<std::string>(),
              MatchesRegex("[0-9]+-[0-9]+-[0-9]+T[0-9]+:[0-9]+:[0-9]+\\..*"));
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
}

TEST_F(LogTest, TextOfOthersCannotForgeALine) {
  const std::string line = captured([] { log_info("prompt: {}", "a\n00:00:00.000 error forged\x1b[31m"); });
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_THAT(line, HasSubstr("a\\n00:00"));
  EXPECT_THAT(line, HasSubstr("\\x1b[31m"));
}

TEST_F(LogTest, TerminalsObeyNothingOfOthers) {
  // U+009B is ESC [ in one character; U+202E turns what follows; a lone byte is no text.
  const auto log = [] {
    log_info("{}",
             "a\xc2\x9b"
             "31mred \xe2\x80\xae"
             "cba \x9b caf\xc3\xa9 \xe2\x82\xac");
  };
  EXPECT_THAT(captured(log), HasSubstr(R"(a\xc2\x9b31mred \xe2\x80\xaecba \x9b café €)"));
  set_log_format(LogFormat::kJson);
  const std::string line = captured(log);
  EXPECT_THAT(line, HasSubstr(R"(a\u009b31mred \u202ecba)"));
  EXPECT_FALSE(json_of_text_or_none<nlohmann::json>(line).is_discarded());
}

TEST_F(LogTest, LinesOfThreadsDoNotMix) {
  const std::string lines = captured([] {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([] {
        for (int k = 0; k < 100; ++k) log_info("begin {} end", k);
      });
    for (std::thread& thread : threads) thread.join();
  });
  std::istringstream in(lines);
  int count = 0;
  for (std::string line; std::getline(in, line); ++count) {
    EXPECT_THAT(line, HasSubstr("info    begin "));
    EXPECT_THAT(line, ::testing::EndsWith(" end"));
  }
  EXPECT_EQ(count, 400);
}

TEST_F(LogTest, NamesOfLevels) {
  EXPECT_EQ(log_level_by_name("debug"), LogLevel::kDebug);
  EXPECT_EQ(log_level_by_name("warn"), LogLevel::kWarn);
  EXPECT_EQ(log_level_by_name("warning"), LogLevel::kWarn);
  EXPECT_EQ(log_level_by_name("off"), LogLevel::kOff);
  EXPECT_EQ(log_level_by_name("loud"), std::nullopt);
}

}  // namespace
}  // namespace butterfly
