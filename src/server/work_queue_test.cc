#include "server/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace butterfly::server {
namespace {

TEST(WorkQueue, ShortJobsDoNotWaitBehindLongOnes) {
  WorkQueue queue(4, 64);
  std::promise<void> let_go;
  const std::shared_future<void> gate = let_go.get_future().share();
  std::atomic<int> done = 0;
  for (int i = 0; i < 8; ++i)
    ASSERT_TRUE(queue.push(
        [&] {
          gate.wait();
          ++done;
        },
        WorkQueue::Weight::kHeavy));
  std::promise<void> light;
  ASSERT_TRUE(queue.push([&] { light.set_value(); }));
  light.get_future().wait();  // for ever, were all threads taken
  EXPECT_EQ(done, 0);
  let_go.set_value();
  while (done < 8) std::this_thread::yield();
}

TEST(WorkQueue, IsBoundedAndEndsWithWhatRuns) {
  WorkQueue queue(1, 2);
  std::promise<void> began, let_go;
  ASSERT_TRUE(queue.push([&] {
    began.set_value();
    let_go.get_future().wait();
  }));
  began.get_future().wait();
  EXPECT_TRUE(queue.push([] {}, WorkQueue::Weight::kHeavy)) << "one thread takes all";
  EXPECT_TRUE(queue.push([] {}));
  EXPECT_FALSE(queue.push([] {}));
  let_go.set_value();
  queue.stop();
  EXPECT_FALSE(queue.push([] {}));
}

}  // namespace
}  // namespace butterfly::server
