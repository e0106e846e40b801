// What is pushed goes out once and in order, beside the thread that pushes; old epochs and what comes after
// the end do not.
#include "runtime/training/value_sender.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

#include "runtime/training/gradient_buckets.h"

namespace butterfly::runtime {
namespace {

using namespace std::chrono_literals;

struct ValueSenderTest : ::testing::Test {
  OutgoingValues values(uint64_t step, cluster::Epoch epoch = 1, size_t bytes = 100'000) {
    return {.epoch = epoch, .step = step, .values = std::span(memory).first(bytes)};
  }
  void wait_until(size_t sent) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return steps.size() >= sent; });
  }
  ValueSender::Send record() {
    return [this](const OutgoingValues& it, ConstPieces pieces) {
      std::unique_lock lock(mutex);
      ++begun;
      changed.notify_all();
      changed.wait(lock, [&] { return open; });
      steps.push_back(it.step);
      threads.push_back(std::this_thread::get_id());
      bytes += pieces[0].size();
      changed.notify_all();
    };
  }
  void set_open() {
    const std::lock_guard lock(mutex);
    open = true;
    changed.notify_all();
  }

  std::vector<std::byte> memory = std::vector<std::byte>(1 << 20);
  const cluster::PackingOptions off = {.mode = cluster::packing_mode_by_name("off"), .bytes_min = 1 << 30};
  std::mutex mutex;
  std::condition_variable changed;
  bool open = true;
  size_t begun = 0;
  std::vector<uint64_t> steps;
  std::vector<std::thread::id> threads;
  size_t bytes = 0;
};

TEST_F(ValueSenderTest, LargeOnesGoBesideSmallOnesAtOnce) {
  ValueSender sender(off, record(), [](std::exception_ptr) { FAIL(); });
  sender.push(values(1, 1, 10));
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(threads[0], std::this_thread::get_id());
  for (uint64_t step = 2; step < 50; ++step) sender.push(values(step));
  wait_until(49);
  for (uint64_t i = 0; i < 49; ++i) EXPECT_EQ(steps[i], i + 1);
  EXPECT_NE(threads[10], std::this_thread::get_id());
  EXPECT_EQ(bytes, 48u * 100'000 + 10);
  EXPECT_GT(sender.seconds().wire, 0);
  EXPECT_FALSE(sender.take_spans().empty());
}

TEST_F(ValueSenderTest, WhatIsOldIsNotSent) {
  open = false;
  ValueSender sender(off, record(), [](std::exception_ptr) { FAIL(); });
  for (uint64_t step = 0; step < 5; ++step) sender.push(values(step, 1));
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return begun == 1; });
  }
  sender.set_epoch(2);
  sender.push(values(7, 1));
  sender.push(values(8, 2, 10));  // small, and behind others
  set_open();
  wait_until(2);
  EXPECT_EQ(steps, (std::vector<uint64_t>{0, 8}));  // the first of the old ones was under way
}

TEST_F(ValueSenderTest, AFullQueueWaitsAndTheEndFreesIt) {
  open = false;
  ValueSender sender(off, record(), [](std::exception_ptr) { FAIL(); });
  std::atomic<size_t> pushed = 0;
  std::thread pushing([&] {
    for (uint64_t step = 0; step < ValueSender::kQueueMax + 100; ++step) {
      sender.push(values(step));
      ++pushed;
    }
  });
  while (pushed < ValueSender::kQueueMax) std::this_thread::yield();
  std::this_thread::sleep_for(20ms);
  EXPECT_LE(pushed, ValueSender::kQueueMax + 1);  // and the one that is under way
  sender.stop();
  pushing.join();
  set_open();
  sender.join();
  EXPECT_LE(steps.size(), 1u);
}

TEST_F(ValueSenderTest, ErrorsAreToldAndEndIt) {
  std::atomic<int> told = 0;
  ValueSender sender(
      off, [](const OutgoingValues&, ConstPieces) { throw std::runtime_error("no room"); },
      [&](std::exception_ptr error) {
        EXPECT_THROW(std::rethrow_exception(error), std::runtime_error);
        ++told;
      });
  sender.push(values(1));
  while (told == 0) std::this_thread::yield();
  sender.push(values(2));
  sender.join();
  EXPECT_EQ(told, 1);
}

TEST(GradientBuckets, AreCutFromTheEndAtBlocks) {
  std::vector<std::unique_ptr<graph::Parameter>> owned;
  std::vector<const graph::Parameter*> parameters;
  for (const int64_t count : {70'000, 10, 300'000}) {
    owned.push_back(std::make_unique<graph::Parameter>());
    owned.back()->value = Tensor::zeros(DType::kF32, {count});
    parameters.push_back(owned.back().get());
  }
  const train::ParameterLayout layout(parameters);
  const cluster::TrainPlan plan{.shards = {{0, 0, 2}, {3, 2, static_cast<uint32_t>(layout.blocks().size())}}};
  for (const size_t bytes : {1u, 400'000u, 1u << 30}) {
    const std::vector<OwnedBucket> all = buckets_of(layout, plan, bytes);
    size_t at = 0;
    std::map<uint32_t, size_t> index;
    for (const OwnedBucket& bucket : all) {
      EXPECT_EQ(bucket.blocks.begin, at);
      EXPECT_EQ(bucket.index, index[bucket.owner]++);
      EXPECT_EQ(bucket.owner, at < 2 ? 0u : 3u);
      size_t held = 0;
      for (size_t i = at; i < bucket.blocks.end; ++i) held += layout.blocks()[i].count * sizeof(float);
      if (bucket.index > 0) {
        EXPECT_GE(held, bytes);
      }
      at = bucket.blocks.end;
    }
    EXPECT_EQ(at, layout.blocks().size());
    EXPECT_EQ(all.size(), bytes == 1 ? layout.blocks().size() : bytes == 400'000 ? 4u : 2u);
  }
  BucketSums sums(layout, cut_buckets(layout, {2, layout.blocks().size()}, 400'000));
  EXPECT_EQ(sums.find(sums.buckets()[1]), 1u);
  EXPECT_EQ(sums.find({0, 1}), sums.buckets().size());
}

}  // namespace
}  // namespace butterfly::runtime
