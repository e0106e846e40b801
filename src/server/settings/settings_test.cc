#include "server/settings/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/temp_dir.h"

namespace butterfly::server {
namespace {

using ::testing::HasSubstr;

TEST(Settings, RowsAreSound) {
  std::set<std::string> keys;
  for (const SettingRow& row : setting_table()) {
    EXPECT_TRUE(keys.insert(std::string(row.key)).second) << row.key;
    // The TOML key is the long flag.
    std::string flag = std::string(row.flags.substr(row.flags.rfind("--") + 2));
    for (char& c : flag)
      if (c == '-') c = '_';
    EXPECT_EQ(flag, row.key);
    EXPECT_LE(row.min, row.max);
  }
}

TEST(Settings, FileFillsWhatWasNotGiven) {
  const butterfly::testing::TempDir folder;
  const auto file = folder.write(
      "serve.toml",
      "host = '0.0.0.0'\nport = 9000\nmodel = ['a.gguf', 'b=c.gguf']\nlora = 'x'\nlazy = true\n");
  Settings settings;
  settings.port = 1234;
  read_settings_file(file, {"port"}, settings);
  EXPECT_EQ(settings.host, "0.0.0.0");
  EXPECT_EQ(settings.port, 1234u);
  EXPECT_EQ(settings.models, (std::vector<std::string>{"a.gguf", "b=c.gguf"}));
  EXPECT_EQ(settings.lora, std::vector<std::string>{"x"});
  EXPECT_TRUE(settings.lazy);
}

std::string refusal(const std::string& toml) {
  const butterfly::testing::TempDir folder;
  Settings settings;
  try {
    read_settings_file(folder.write("s.toml", toml), {}, settings);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Settings, FileErrorsNameTheLine) {
  EXPECT_THAT(refusal("\nprot = 1\n"), HasSubstr("s.toml:2: no setting 'prot'; did you mean 'port'?"));
  EXPECT_THAT(refusal("port = 'x'\n"), HasSubstr("s.toml:1: port: expected an integer, found string"));
  EXPECT_THAT(refusal("port = 70000\n"), HasSubstr("expected 0 to 65535, found 70000"));
  EXPECT_THAT(refusal("port = -1\n"), HasSubstr("found -1"));
  EXPECT_THAT(refusal("lazy = 1\n"), HasSubstr("expected true or false"));
  EXPECT_THAT(refusal("model = [1]\n"), HasSubstr("expected strings"));
  EXPECT_THAT(refusal("port = \n"), HasSubstr("s.toml:1: "));
}

TEST(Settings, PrintedFormReadsBackTheSame) {
  Settings settings;
  settings.models = {"a \"quoted\" \\ name=b.gguf", "ü.gguf"};
  settings.host = "::1";
  settings.port = 4711;
  settings.no_mmap = true;
  settings.api_keys = {"a-secret-that-is-long"};
  const std::string text = settings_as_toml(settings);
  EXPECT_THAT(text, ::testing::Not(HasSubstr("a-secret-that-is-long")));
  const butterfly::testing::TempDir folder;
  Settings again;
  read_settings_file(folder.write("s.toml", text), {}, again);
  EXPECT_EQ(again.models, settings.models);
  EXPECT_EQ(again.port, settings.port);
  EXPECT_EQ(settings_as_toml(again), text);
}

}  // namespace
}  // namespace butterfly::server
