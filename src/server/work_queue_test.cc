#include "server/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "server/generation/heavy_work.h"

namespace butterfly::server {
namespace {

using Weight = WorkQueue::Weight;

TEST(WorkQueue, ShortJobsDoNotWaitBehindLongOnes) {
  WorkQueue queue(2, 2, 64);
  std::promise<void> let_go;
  const std::shared_future<void> gate = let_go.get_future().share();
  std::atomic<int> done = 0;
  for (int i = 0; i < 8; ++i)
    ASSERT_TRUE(queue.push(
        [&] {
          gate.wait();
          ++done;
        },
        Weight::kHeavy));
  std::promise<void> light;
  ASSERT_TRUE(queue.push([&] { light.set_value(); }));
  light.get_future().wait();  // for ever, were all threads taken
  EXPECT_EQ(done, 0);
  let_go.set_value();
  while (done < 8) std::this_thread::yield();
}

TEST(WorkQueue, JobsKnowWhichThreadTheyAreOn) {
  WorkQueue queue(1, 1, 4);
  std::promise<bool> light, heavy;
  ASSERT_TRUE(queue.push([&] { light.set_value(this_thread_is_light); }));
  ASSERT_TRUE(queue.push([&] { heavy.set_value(this_thread_is_light); }, Weight::kHeavy));
  EXPECT_TRUE(light.get_future().get());
  EXPECT_FALSE(heavy.get_future().get());
}

TEST(WorkQueue, IsBoundedAndEndsWithWhatRuns) {
  WorkQueue queue(1, 1, 2);
  std::promise<void> began, let_go;
  ASSERT_TRUE(queue.push(
      [&] {
        began.set_value();
        let_go.get_future().wait();
      },
      Weight::kHeavy));
  began.get_future().wait();
  EXPECT_TRUE(queue.push([] {}, Weight::kHeavy));
  EXPECT_TRUE(queue.push([] {}, Weight::kHeavy));
  EXPECT_FALSE(queue.push([] {}, Weight::kHeavy));
  std::promise<void> light;
  EXPECT_TRUE(queue.push([&] { light.set_value(); })) << "long ones take no room from short ones";
  light.get_future().wait();
  let_go.set_value();
  queue.stop();
  EXPECT_FALSE(queue.push([] {}));
}

}  // namespace
}  // namespace butterfly::server
