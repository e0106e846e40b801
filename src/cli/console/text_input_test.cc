#include "cli/console/text_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace butterfly::cli {
namespace {

TEST(TextInput, PromptIsTakenAsItIs) {
  EXPECT_EQ((TextInput{.prompt = "a\\n b\n", .file = {}}.read()), "a\\n b\n");
  EXPECT_EQ((TextInput{.prompt = "", .file = {}}.read()), "");
}

TEST(TextInput, FileIsReadWholeAndUnchanged) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "text_input_test.txt";
  std::string text(200'001, 'x');  // more than one chunk
  text += std::string("\0\r\n\n", 4);
  std::ofstream(path, std::ios::binary) << text;
  EXPECT_EQ((TextInput{.prompt = {}, .file = path.string()}.read()), text);
  std::filesystem::remove(path);
}

TEST(TextInput, MissingFileIsNamed) {
  try {
    TextInput{.prompt = {}, .file = "/nonexistent/prompt.txt"}.read();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::kNotFound);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("/nonexistent/prompt.txt"));
  }
}

TEST(TextInput, DirectoryIsAnError) {
  EXPECT_THROW((TextInput{.prompt = {}, .file = ::testing::TempDir()}.read()), Error);
}

TEST(TextInput, DashIsStdin) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const int saved = dup(STDIN_FILENO);
  dup2(ends[0], STDIN_FILENO);
  ASSERT_EQ(write(ends[1], "piped\n", 6), 6);
  close(ends[1]);
  EXPECT_EQ((TextInput{.prompt = {}, .file = "-"}.read()), "piped\n");
  EXPECT_EQ((TextInput{}.read()), "");  // the pipe is empty now, and it is no terminal
  dup2(saved, STDIN_FILENO);
  close(saved);
  close(ends[0]);
}

}  // namespace
}  // namespace butterfly::cli
