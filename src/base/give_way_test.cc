#include "base/give_way.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <ctime>
#include <thread>

#include "base/cpu.h"

namespace butterfly {
namespace {

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

long switches() {
  rusage use{};
  ::getrusage(RUSAGE_THREAD, &use);
  return use.ru_nivcsw;
}

// Of 0.2 s of a CPU, the ticks of Linux by themselves make some 50 slices.
TEST(GiveWay, TwoThreadsOfOneCpuTakeTurnsInShortSlices) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(allowed_cpus().front()), &one);
  std::atomic<int> ready = 0;
  std::atomic<bool> enough = false;
  std::array<std::atomic<double>, 2> had{};
  std::array<double, 2> ahead{};
  std::array<long, 2> let_go{};
  const auto work = [&](size_t i) {
    ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
    GiveWay give_way;
    give_way.begin();
    ++ready;
    while (ready < 2) ::sched_yield();
    const double began = cpu_seconds();
    const long before = switches();
    while (!enough && had[i] < 0.1) {
      had[i] = cpu_seconds() - began;
      ahead[i] = std::max(ahead[i], had[i] - had[1 - i]);
    }
    enough = true;
    let_go[i] = switches() - before;
    give_way.end();
  };
  std::thread other(work, 1);
  std::thread(work, 0).join();
  other.join();
  EXPECT_GT(let_go[0] + let_go[1], 200);
  EXPECT_LT(std::max(ahead[0], ahead[1]), 0.05) << "one gave way to the other, which did not";
}

TEST(GiveWay, SystemCallsAreStartedAgain) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  std::thread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(::write(pipe[1], "x", 1), 1);
  });
  GiveWay give_way;
  give_way.begin();
  char c = 0;
  EXPECT_EQ(::read(pipe[0], &c, 1), 1);
  give_way.end();
  EXPECT_EQ(c, 'x');
  writer.join();
  ::close(pipe[0]);
  ::close(pipe[1]);
}

}  // namespace
}  // namespace butterfly
