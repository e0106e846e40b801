#include "base/thread_priority.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>

namespace butterfly {
namespace {

int nice_of_this_thread() { return ::getpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid))); }

TEST(ThreadPriority, OnlyTheCallingThreadComesLast) {
  const int before = nice_of_this_thread();
  if (before > 17) GTEST_SKIP() << "this process comes last itself";
  int inside = 0, policy = -1;
  bool done = false;
  std::thread([&] {
    done = come_after_others(18);
    inside = nice_of_this_thread();
    policy = ::sched_getscheduler(0);
  }).join();
  EXPECT_TRUE(done);
  EXPECT_EQ(inside, 18);
  EXPECT_EQ(policy, SCHED_OTHER);
  EXPECT_EQ(nice_of_this_thread(), before);
}

}  // namespace
}  // namespace butterfly
