#include "base/thread_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/testing/count_allocations.h"
#include "base/testing/temp_dir.h"

namespace butterfly {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

double process_cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

struct ThreadPoolTest : ::testing::TestWithParam<size_t> {};

TEST_P(ThreadPoolTest, CallsEveryWorkerOnceAndWaitsForAll) {
  ThreadPool pool(GetParam());
  ASSERT_EQ(pool.size(), GetParam());
  std::vector<int> calls(pool.size());  // plain ints: run() itself has to order the accesses
  for (int round = 1; round <= 500; ++round) {
    pool.run([&](size_t worker) { ++calls[worker]; });
    ASSERT_EQ(calls, std::vector<int>(pool.size(), round));
  }
}

TEST_P(ThreadPoolTest, WorksWithoutSpinningAndAfterSleeping) {
  ThreadPool pool(ThreadPool::Options{.threads = GetParam(), .spin = microseconds(0)});
  std::atomic<size_t> calls{0};
  for (int round = 0; round < 50; ++round) {
    pool.run([&](size_t) { ++calls; });
    if (round % 10 == 0) std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(calls, 50 * pool.size());
}

TEST_P(ThreadPoolTest, RethrowsTheFirstByWorkerIndexAfterAllAreDone) {
  ThreadPool pool(GetParam());
  for (size_t failing = 0; failing < pool.size(); ++failing) {
    std::atomic<size_t> done{0};
    try {
      pool.run([&](size_t worker) {
        if (worker < failing) {
          std::this_thread::sleep_for(microseconds(200));
          ++done;
          return;
        }
        ++done;
        throw std::runtime_error(std::to_string(worker));
      });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(error.what(), std::to_string(failing));
    }
    EXPECT_EQ(done, pool.size());
    pool.run([](size_t) {});  // the old error is forgotten
  }
}

TEST_P(ThreadPoolTest, RunAllocatesNothing) {
  ThreadPool pool(GetParam());
  std::atomic<size_t> sum{0};
  pool.run([&](size_t worker) { sum += worker; });
  const size_t before = testing::allocation_count();
  for (int round = 0; round < 100; ++round) {
    pool.run([&](size_t worker) { sum += worker; });
    pool.parallel_for(1000, 3, [&](size_t begin, size_t end) { sum += end - begin; });
  }
  EXPECT_EQ(testing::allocation_count(), before);
  EXPECT_GT(sum, 0u);
}

TEST_P(ThreadPoolTest, StartsAndStopsWithoutWork) {
  for (int i = 0; i < 10; ++i) ThreadPool pool(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Sizes, ThreadPoolTest, ::testing::Values(1, 2, 3, 9),
                         ::testing::PrintToStringParamName());

RC_GTEST_PROP(ThreadPoolProperty, ParallelForCutsAtTheGrainAndCoversAllOnce, ()) {
  const size_t count = *rc::gen::inRange<size_t>(0, 400);
  const size_t grain = *rc::gen::inRange<size_t>(1, 70);
  static ThreadPool pools[] = {ThreadPool(1), ThreadPool(2), ThreadPool(5)};
  for (ThreadPool& pool : pools) {
    std::mutex mutex;
    std::set<std::pair<size_t, size_t>> ranges;
    pool.parallel_for(count, grain, [&](size_t begin, size_t end) {
      const std::lock_guard lock(mutex);
      RC_ASSERT(ranges.emplace(begin, end).second);
    });
    size_t at = 0;
    for (const auto& [begin, end] : ranges) {
      RC_ASSERT(begin == at);
      RC_ASSERT(begin < end);
      RC_ASSERT(begin % grain == 0);
      at = end;
    }
    RC_ASSERT(at == count);
    RC_ASSERT(ranges.size() == std::min(pool.size(), (count + grain - 1) / grain));
  }
}

TEST(ThreadPool, ParallelForSplitsTheSameWayEachTime) {
  ThreadPool pool(3);
  for (int round = 0; round < 20; ++round) {
    std::vector<size_t> begins(3), ends(3);
    std::atomic<size_t> next{0};
    pool.parallel_for(100, 8, [&](size_t begin, size_t end) {
      const size_t slot = next++;
      begins[slot] = begin;
      ends[slot] = end;
    });
    EXPECT_THAT(begins, ::testing::UnorderedElementsAre(0, 40, 72));  // 13 pieces of 8: 5, 4, 4
    EXPECT_THAT(ends, ::testing::UnorderedElementsAre(40, 72, 100));
  }
}

TEST(ThreadPool, ParallelForOfHugeCountsDoesNotWrap) {
  ThreadPool pool(2);
  std::atomic<size_t> last{0};
  pool.parallel_for(SIZE_MAX, 1, [&](size_t, size_t end) {
    if (end > last) last = end;
  });
  EXPECT_EQ(last, SIZE_MAX);
}

TEST(ThreadPool, DefaultSizeFollowsTheMachine) {
  EXPECT_EQ(ThreadPool().size(), default_thread_count());
  EXPECT_GE(default_thread_count(), 1u);
  EXPECT_LE(default_thread_count(), allowed_cpus().size());
}

TEST(ThreadPool, PinsOneWorkerPerCpuAndLeavesTheCallerAlone) {
  const std::vector<int> cpus = allowed_cpus();
  if (cpus.size() < 2) GTEST_SKIP() << "needs two CPUs";
  ThreadPool pool(cpus.size());
  std::vector<std::vector<int>> seen(pool.size());
  pool.run([&](size_t worker) { seen[worker] = allowed_cpus(); });
  EXPECT_EQ(seen[0], cpus);
  std::set<int> pinned;
  for (size_t worker = 1; worker < pool.size(); ++worker) {
    ASSERT_EQ(seen[worker].size(), 1u);
    EXPECT_TRUE(pinned.insert(seen[worker][0]).second) << "two workers on CPU " << seen[worker][0];
  }
}

TEST(ThreadPool, DoesNotPinWhenAskedNotToOrWhenSmallerOrLargerThanTheMachine) {
  const std::vector<int> cpus = allowed_cpus();
  ThreadPool free_pool(ThreadPool::Options{.threads = cpus.size(), .pin = false});
  free_pool.run([&](size_t) { EXPECT_EQ(allowed_cpus(), cpus); });
  ThreadPool large(cpus.size() + 1);
  large.run([&](size_t) { EXPECT_EQ(allowed_cpus(), cpus); });
}

TEST(ThreadPool, IdlePoolUsesNoCpu) {
  ThreadPool pool(4);
  pool.run([](size_t) {});
  std::this_thread::sleep_for(milliseconds(20));
  const double before = process_cpu_seconds();
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_LT(process_cpu_seconds() - before, 0.03) << "three spinning workers would use up to 0.9 s";
}

// The counterpart, which also shows that the measurement above can fail. A loaded machine gives a spinning
// worker little, but gives it in the end.
TEST(ThreadPool, SpinTimeComesFromTheEnvironment) {
  if (allowed_cpus().size() < 2) GTEST_SKIP() << "with one CPU a pool of two does not spin";
  ASSERT_EQ(setenv("BUTTERFLY_SPIN", "10000000", 1), 0);
  ThreadPool spinning(2);
  ASSERT_EQ(unsetenv("BUTTERFLY_SPIN"), 0);
  spinning.run([](size_t) {});
  const double before = process_cpu_seconds();
  for (int i = 0; i < 200 && process_cpu_seconds() - before <= 0.03; ++i)
    std::this_thread::sleep_for(milliseconds(50));
  EXPECT_GT(process_cpu_seconds() - before, 0.03);
}

TEST(ThreadPool, WorkersMayReadAFileThatShrinks) {
  const testing::TempDir dir;
  const auto path = dir.write("weights", std::string(100000, 'x'));
  const auto file = MappedFile::open(path);
  std::filesystem::resize_file(path, 10);
  ThreadPool pool(3);
  for (size_t reader = 0; reader < 3; ++reader) {
    std::atomic<int> others{0};
    EXPECT_THROW(pool.run([&](size_t worker) {
      if (worker != reader) {
        ++others;
        return;
      }
      volatile std::byte value = file->bytes()[50000];
      static_cast<void>(value);
    }),
                 Error);
    EXPECT_EQ(others, 2);
  }
}

TEST(ThreadPoolDeathTest, RunInsideRunIsOurMistake) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        ThreadPool pool(1);
        pool.run([&](size_t) { pool.run([](size_t) {}); });
      },
      "run\\(\\) inside run\\(\\)");
  EXPECT_DEATH(ThreadPool(1).parallel_for(3, 0, [](size_t, size_t) {}), "parallel_for over 3");
}

}  // namespace
}  // namespace butterfly
