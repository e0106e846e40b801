// The folder keeps secrets to its owner, and files whole.
#include "cluster/identity/state_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/testing/temp_dir.h"

namespace butterfly::cluster {
namespace {

using ::testing::HasSubstr;

mode_t mode_of(const std::filesystem::path& path) {
  struct stat found;
  return ::stat(path.c_str(), &found) == 0 ? found.st_mode & 0777 : 0;
}

template <typename Action>
std::string complaint(Action action, Errc code) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

struct StateFolderTest : ::testing::Test {
  butterfly::testing::TempDir dir;
};

TEST_F(StateFolderTest, OnlyItsOwnerMayUseIt) {
  const mode_t before = umask(0);
  const StateFolder folder = StateFolder::make(dir / "deep" / "state");
  folder.write("node.key", "secret");
  umask(before);
  EXPECT_EQ(mode_of(folder.path()), 0700u);
  EXPECT_EQ(mode_of(folder.path() / "node.key"), 0600u);
}

TEST_F(StateFolderTest, WhatOthersMayReadIsRefused) {
  const StateFolder folder = StateFolder::make(dir / "state");
  folder.write("node.key", "secret");
  ::chmod((folder.path() / "node.key").c_str(), 0640);
  EXPECT_THAT(complaint([&] { (void)folder.read("node.key"); }, Errc::kInvalidArgument),
              HasSubstr("chmod 600"));
  ::chmod(folder.path().c_str(), 0750);
  EXPECT_THAT(complaint([&] { StateFolder::open(folder.path()); }, Errc::kInvalidArgument),
              HasSubstr("chmod 700"));
  EXPECT_THAT(complaint([&] { StateFolder::make(folder.path()); }, Errc::kInvalidArgument),
              HasSubstr("chmod 700"));
}

TEST_F(StateFolderTest, ReplacesFilesAndLeavesNoParts) {
  const StateFolder folder = StateFolder::make(dir / "state");
  for (const std::string text : {"first", "", "second one"}) {
    folder.write("a", text);
    EXPECT_EQ(folder.read("a"), text);
  }
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) ++files;
  EXPECT_EQ(files, 1u);
  folder.remove("a");
  folder.remove("a");
  EXPECT_FALSE(folder.has("a"));
  complaint([&] { (void)folder.read("a"); }, Errc::kNotFound);
}

TEST_F(StateFolderTest, SaysWhatIsNotThereOrTooLarge) {
  complaint([&] { StateFolder::open(dir / "none"); }, Errc::kNotFound);
  dir.write("file", "");
  complaint([&] { StateFolder::open(dir / "file"); }, Errc::kInvalidArgument);
  const StateFolder folder = StateFolder::make(dir / "state");
  folder.write("a", std::string(5000, 'x'));
  complaint([&] { (void)folder.read("a", 4999); }, Errc::kCorrupt);
  EXPECT_EQ(folder.read("a", 5000).size(), 5000u);
}

TEST_F(StateFolderTest, LinksOfOthersAreNotFollowed) {
  const StateFolder folder = StateFolder::make(dir / "state");
  dir.write("elsewhere", "x");
  std::filesystem::create_symlink(dir / "elsewhere", folder.path() / "a");
  complaint([&] { (void)folder.read("a"); }, Errc::kIo);
  folder.write("a", "own");
  EXPECT_EQ(folder.read("a"), "own");
  std::ifstream other(dir / "elsewhere");
  std::string text;
  other >> text;
  EXPECT_EQ(text, "x");
}

TEST_F(StateFolderTest, TheLockIsHeldByOne) {
  const StateFolder folder = StateFolder::make(dir / "state");
  folder.write("count", "0");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        const StateFolder::Lock lock(folder);
        folder.write("count", std::to_string(std::stoi(folder.read("count")) + 1));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(folder.read("count"), "40");
}

TEST_F(StateFolderTest, TheDefaultFollowsTheEnvironment) {
  const auto set = [](const char* name, const char* value) {
    value == nullptr ? unsetenv(name) : setenv(name, value, 1);
  };
  std::vector<std::pair<const char*, std::optional<std::string>>> before;
  for (const char* name : {"BUTTERFLY_STATE", "XDG_STATE_HOME", "HOME"}) {
    const char* value = std::getenv(name);
    before.emplace_back(name, value == nullptr ? std::nullopt : std::optional<std::string>(value));
  }
  set("BUTTERFLY_STATE", "/x/own");
  EXPECT_EQ(StateFolder::default_path(), "/x/own");
  set("BUTTERFLY_STATE", nullptr);
  set("XDG_STATE_HOME", "/x/state");
  EXPECT_EQ(StateFolder::default_path(), "/x/state/butterfly");
  set("XDG_STATE_HOME", nullptr);
  set("HOME", "/x/home");
  EXPECT_EQ(StateFolder::default_path(), "/x/home/.local/state/butterfly");
  for (const auto& [name, value] : before) set(name, value ? value->c_str() : nullptr);
}

}  // namespace
}  // namespace butterfly::cluster
