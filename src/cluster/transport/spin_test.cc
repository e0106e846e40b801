// Spinning ends with data, with the peer, or in time; and never takes the last CPU.
#include "cluster/transport/spin.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>
#include <utility>
#include <vector>

#include "base/cpu.h"

namespace butterfly::cluster {
namespace {

using namespace std::chrono_literals;

struct SpinTest : ::testing::Test {
  SpinTest() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0); }
  ~SpinTest() override {
    ::close(ends[0]);
    if (ends[1] >= 0) ::close(ends[1]);
  }
  int ends[2] = {-1, -1};
  const bool may_spin = default_thread_count() > 1;
};

TEST_F(SpinTest, SeesDataAndLeavesItThere) {
  ASSERT_EQ(::send(ends[1], "ab", 2, 0), 2);
  EXPECT_EQ(spin_until_readable(ends[0], 1s), may_spin);
  char both[2];
  EXPECT_EQ(::recv(ends[0], both, 2, MSG_DONTWAIT), 2);
}

TEST_F(SpinTest, SeesTheEnd) {
  ::close(std::exchange(ends[1], -1));
  EXPECT_EQ(spin_until_readable(ends[0], 1s), may_spin);
}

TEST_F(SpinTest, GivesUpInTime) {
  EXPECT_FALSE(spin_until_readable(ends[0], 100us));
  EXPECT_FALSE(spin_until_readable(ends[0], 0us));
  EXPECT_EQ(spinning_threads(), 0);
}

// With all places taken even a socket that has something is not looked at: one CPU is left to others.
TEST_F(SpinTest, LeavesACpuToOthers) {
  const size_t places = default_thread_count() - 1;
  std::vector<std::thread> spinners;
  for (size_t i = 0; i < places; ++i)
    spinners.emplace_back([&] { EXPECT_TRUE(spin_until_readable(ends[0], 30s)); });
  while (spinning_threads() < static_cast<int>(places)) std::this_thread::yield();
  int full[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, full), 0);
  ASSERT_EQ(::send(full[1], "x", 1, 0), 1);
  EXPECT_FALSE(spin_until_readable(full[0], 30s));
  ASSERT_EQ(::send(ends[1], "x", 1, 0), 1);
  for (std::thread& thread : spinners) thread.join();
  EXPECT_EQ(spinning_threads(), 0);
  EXPECT_EQ(spin_until_readable(full[0], 1s), may_spin);
  ::close(full[0]);
  ::close(full[1]);
}

}  // namespace
}  // namespace butterfly::cluster
