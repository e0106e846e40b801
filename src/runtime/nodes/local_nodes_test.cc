// Real child processes (sleep, sh) that are killed, end, or cannot be started.
#include "runtime/nodes/local_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <condition_variable>
#include <mutex>

#include "base/testing/temp_dir.h"

namespace butterfly::runtime {
namespace {

using butterfly::testing::TempDir;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

// Long enough for any machine; tests end when what they wait for is there.
constexpr Duration kLong = std::chrono::minutes(2);

struct LocalNodesTest : ::testing::Test {
  LocalNodes& make(const std::string& program, size_t restarts_max) {
    nodes.emplace(LocalNodes::Options{.restarts = {.in_a_row_max = restarts_max,
                                                   .first = milliseconds(1),
                                                   .longest = milliseconds(4),
                                                   .proved = std::chrono::hours(9)},
                                      .program = program});
    nodes->on_end([this](const LocalNodeEnd& end) {
      const std::lock_guard lock(mutex);
      ends.push_back(end);
      changed.notify_all();
      return wanted;
    });
    return *nodes;
  }
  // Waits for so many ends in all; the last of them.
  LocalNodeEnd end_number(size_t count) {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, kLong, [&] { return ends.size() >= count; }));
    return ends.size() >= count ? ends[count - 1] : LocalNodeEnd{};
  }
  // The one process that runs, and is not `before`.
  pid_t next_process(pid_t before) {
    const Deadline deadline(SystemClock::instance(), kLong);
    while (!deadline.expired()) {
      const std::vector<pid_t> found = nodes->processes();
      if (found.size() == 1 && found[0] != before) return found[0];
      SystemClock::instance().sleep_for(milliseconds(5));
    }
    ADD_FAILURE() << "no process was started";
    return 0;
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<LocalNodeEnd> ends;
  bool wanted = true;
  std::optional<LocalNodes> nodes;  // last: its thread calls back
};

TEST_F(LocalNodesTest, AKilledNodeIsStartedAgainAndTheReasonIsTold) {
  make("/bin/sleep", 3).start("node-2", {"1000"}, 0, 1);
  pid_t process = next_process(0);
  for (size_t kills = 1; kills <= 3; ++kills) {
    ASSERT_EQ(::kill(process, SIGKILL), 0);
    const LocalNodeEnd end = end_number(kills);
    EXPECT_EQ(end.name, "node-2");
    EXPECT_THAT(end.how, HasSubstr("killed by signal 9"));
    EXPECT_TRUE(end.again.has_value());
    EXPECT_EQ(end.restarts, kills);
    process = next_process(process);
  }
  ASSERT_EQ(::kill(process, SIGKILL), 0);
  const LocalNodeEnd last = end_number(4);
  EXPECT_FALSE(last.again.has_value());
  EXPECT_EQ(last.restarts, 3u);
  EXPECT_TRUE(nodes->processes().empty());
}

TEST_F(LocalNodesTest, ItStartsWithTheSameArguments) {
  const TempDir folder;
  const std::string file = (folder.path() / "lines").string();
  make("/bin/sh", 2).start("node-2", {"-c", "echo again >> " + file + "; exit 3"}, 0, 1);
  const LocalNodeEnd last = end_number(3);
  EXPECT_THAT(last.how, HasSubstr("ended with status 3"));
  EXPECT_FALSE(last.again.has_value());
  EXPECT_EQ(std::filesystem::file_size(file), 3 * std::string("again\n").size());
}

TEST_F(LocalNodesTest, AProgramThatIsNotThereIsGivenUpInWords) {
  make("/none/such-program", 1).start("node-2", {}, 0, 1);
  EXPECT_THAT(end_number(1).how, HasSubstr("could not be started"));
  EXPECT_FALSE(end_number(2).again.has_value());
}

TEST_F(LocalNodesTest, WhomNobodyWantsStaysAway) {
  wanted = false;
  make("/bin/sleep", 5).start("node-2", {"1000"}, 0, 1);
  ASSERT_EQ(::kill(next_process(0), SIGKILL), 0);
  end_number(1);
  SystemClock::instance().sleep_for(milliseconds(200));  // many times its wait
  EXPECT_TRUE(nodes->processes().empty());
  EXPECT_EQ(ends.size(), 1u);
}

TEST_F(LocalNodesTest, AllEndWithTheObjectAndNoneComesBack) {
  make("/bin/sleep", 5);
  for (size_t i = 0; i < 3; ++i) nodes->start("node", {"1000"}, i, 3);
  const std::vector<pid_t> processes = nodes->processes();
  ASSERT_EQ(processes.size(), 3u);
  nodes.reset();
  for (const pid_t process : processes) EXPECT_NE(::kill(process, 0), 0);
  EXPECT_TRUE(ends.empty());  // nothing that was asked for is told as an accident
}

}  // namespace
}  // namespace butterfly::runtime
