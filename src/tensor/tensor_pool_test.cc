#include "tensor/tensor_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "base/testing/count_allocations.h"

namespace butterfly {
namespace {

TEST(TensorPool, ClassesWasteAtMostAnEighth) {
  std::vector<uint64_t> sizes;
  for (uint64_t bytes = 0; bytes <= 20000; ++bytes) sizes.push_back(bytes);
  for (int bit = 15; bit < 48; ++bit)
    for (int eighth = 0; eighth < 8; ++eighth)
      for (int delta : {-1, 0, 1}) sizes.push_back((uint64_t{1} << bit) / 8 * (8 + eighth) + delta);
  uint64_t previous = 0;
  for (const uint64_t bytes : sizes) {
    const uint64_t rounded = TensorPool::class_bytes(bytes);
    ASSERT_GE(rounded, std::max<uint64_t>(bytes, 1));
    ASSERT_EQ(rounded % kAlignment, 0u) << bytes;
    ASSERT_EQ(TensorPool::class_bytes(rounded), rounded) << bytes;
    ASSERT_GE(rounded, previous) << "classes go up: " << bytes;
    if (bytes > 512) {
      ASSERT_LE((rounded - bytes) * 8, bytes) << bytes << " gets " << rounded;
    } else {
      ASSERT_LT(rounded - bytes, kAlignment + (bytes == 0)) << bytes;
    }
    previous = rounded;
  }
  EXPECT_EQ(TensorPool::class_bytes(1024), 1024u);
  EXPECT_EQ(TensorPool::class_bytes(1025), 1152u);
}

TEST(TensorPool, BuffersAreAlignedAndAsLongAsAskedFor) {
  TensorPool pool;
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{100}, size_t{5000}, size_t{1} << 20, size_t{9} << 20}) {
    const Buffer buffer = pool.allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kAlignment, 0u);
    EXPECT_EQ(buffer.size(), bytes);
    EXPECT_TRUE(buffer.writable());
    std::memset(buffer.data(), 0xff, bytes);
  }
}

TEST(TensorPool, ReusesWhatCameBackAndCounts) {
  TensorPool pool;
  const std::byte* first = pool.allocate(1000).data();
  EXPECT_EQ(pool.allocate(1010).data(), first);  // the same class
  EXPECT_NE(pool.allocate(2000).data(), first);
  const auto stats = pool.stats();
  EXPECT_EQ(stats.hits, 1u);
  EXPECT_EQ(stats.misses, 2u);
  EXPECT_NEAR(stats.hit_rate(), 1.0 / 3, 1e-12);
  EXPECT_EQ(stats.bytes_in_use, 0u);
  EXPECT_EQ(stats.bytes_idle, 1024u + 2048u);
  EXPECT_EQ(stats.bytes_in_use_max, 2048u);
  EXPECT_EQ(TensorPool::Stats{}.hit_rate(), 0);
}

// The mistake to avoid: handing out memory while a view of it lives.
TEST(TensorPool, ABufferReturnsOnlyWhenItsLastViewDies) {
  TensorPool pool;
  Tensor tensor = pool.tensor(DType::kF32, {16, 16});
  std::byte* const memory = tensor.raw();
  Tensor view = tensor.slice(0, 3, 4).transpose(0, 1);
  tensor = Tensor();
  EXPECT_EQ(pool.stats().bytes_in_use, 1024u);
  EXPECT_NE(pool.allocate(1024).data(), memory);
  view = Tensor();
  EXPECT_EQ(pool.stats().bytes_in_use, 0u);
  EXPECT_EQ(pool.allocate(1024).data(), memory);
}

TEST(TensorPool, HighWaterMarkIsThePeak) {
  TensorPool pool;
  {
    const Buffer a = pool.allocate(1024), b = pool.allocate(1024);
    EXPECT_EQ(pool.stats().bytes_in_use, 2048u);
  }
  const Buffer c = pool.allocate(1024);
  EXPECT_EQ(pool.stats().bytes_in_use, 1024u);
  EXPECT_EQ(pool.stats().bytes_in_use_max, 2048u);
}

TEST(TensorPool, HitsAllocateNothing) {
  TensorPool pool;
  pool.tensor(DType::kF32, {8, 8});
  const size_t before = testing::allocation_count();
  for (int i = 0; i < 100; ++i) {
    const Tensor tensor = pool.tensor(DType::kF32, {8, 8});
    const Tensor view = tensor.slice(0, 1, 3);
  }
  EXPECT_EQ(testing::allocation_count(), before);
  EXPECT_EQ(pool.stats().hits, 100u);
}

Errc code_of(TensorPool& pool, size_t bytes) {
  try {
    pool.allocate(bytes);
  } catch (const Error& error) {
    return error.code();
  }
  return Errc::kOk;
}

TEST(TensorPool, MemoryInUseIsBounded) {
  TensorPool pool(TensorPool::Options{.bytes_max = 4096});
  Buffer a = pool.allocate(3072);
  EXPECT_EQ(code_of(pool, 1025), Errc::kOutOfMemory);
  EXPECT_EQ(pool.stats().bytes_in_use, 3072u) << "a refusal takes nothing";
  EXPECT_EQ(pool.stats().bytes_in_use_max, 3072u);
  EXPECT_EQ(code_of(pool, 1024), Errc::kOk);
  a = Buffer();
  EXPECT_EQ(code_of(pool, 4096), Errc::kOk);
  EXPECT_EQ(code_of(pool, SIZE_MAX), Errc::kOutOfMemory);
  EXPECT_EQ(code_of(pool, size_t{1} << 47), Errc::kOutOfMemory);
}

TEST(TensorPool, RefusalsOfTheSystemAreErrorsToo) {
  TensorPool pool;
  EXPECT_EQ(code_of(pool, size_t{1} << 47), Errc::kOutOfMemory);
  EXPECT_EQ(pool.stats().bytes_in_use, 0u);
}

TEST(TensorPool, IdleMemoryIsBounded) {
  TensorPool pool(TensorPool::Options{.idle_bytes_max = 4096});
  {
    std::vector<Buffer> many;
    for (int i = 0; i < 10; ++i) many.push_back(pool.allocate(1024));
  }
  EXPECT_EQ(pool.stats().bytes_idle, 4096u);
  pool.allocate(8192);  // larger than the bound: not kept
  EXPECT_EQ(pool.stats().bytes_idle, 4096u);
  pool.trim();
  EXPECT_EQ(pool.stats().bytes_idle, 0u);
  EXPECT_EQ(code_of(pool, 100), Errc::kOk);
}

TEST(TensorPool, SizesNoLongerUsedMakeRoom) {
  TensorPool pool(TensorPool::Options{.idle_bytes_max = 8192});
  { const Buffer a = pool.allocate(4096), b = pool.allocate(4096); }
  pool.allocate(2048);
  pool.allocate(2048);
  EXPECT_EQ(pool.stats().hits, 1u) << "the old size filled the pool";
  EXPECT_LE(pool.stats().bytes_idle, 8192u);
}

TEST(TensorPool, BuffersOutliveThePool) {
  Tensor tensor;
  Buffer buffer;
  {
    TensorPool pool;
    tensor = pool.tensor(DType::kF32, {100});
    buffer = pool.allocate(size_t{5} << 20);
    pool.allocate(100);
  }
  tensor.data<float>()[99] = 1;
  buffer.data()[(size_t{5} << 20) - 1] = std::byte{1};
}

TEST(TensorPool, BadShapesAreRefused) {
  TensorPool pool;
  EXPECT_THROW(pool.tensor(DType::kQ4_0, {3}), Error);
  EXPECT_THROW(pool.tensor(DType::kQ4_0, {32, 1}), Error);
  EXPECT_THROW(pool.tensor(DType::kF32, {int64_t{1} << 40, int64_t{1} << 40}), Error);
  EXPECT_EQ(pool.stats().bytes_in_use, 0u);
}

// Threads take, fill, pass on and give back buffers of few sizes. Nobody may see another's bytes.
TEST(TensorPool, ManyThreadsNeverShareABuffer) {
  auto pool = std::make_unique<TensorPool>(TensorPool::Options{.idle_bytes_max = 20000});
  std::mutex mutex;
  std::vector<std::pair<Buffer, std::byte>> shelf;  // handed from thread to thread
  std::atomic<int> wrong{0};
  const auto work = [&](unsigned id) {
    for (uint64_t i = 0; i < 2000; ++i) {
      const uint64_t draw = random_u64(1, id, i);
      Buffer buffer = pool->allocate(64 + draw % 7 * 700);
      const auto mark = static_cast<std::byte>(draw >> 32);
      std::fill(buffer.bytes().begin(), buffer.bytes().end(), mark);
      std::pair<Buffer, std::byte> taken{buffer, mark};
      if (draw >> 40 & 1) {
        const std::lock_guard lock(mutex);
        shelf.push_back(std::move(taken));
        std::swap(shelf.back(), shelf[(draw >> 8) % shelf.size()]);
        taken = std::move(shelf.back());
        if (shelf.size() > 8) shelf.pop_back();
      }
      buffer = Buffer();
      for (const std::byte b : taken.first.bytes()) wrong += b != taken.second;
    }
  };
  std::vector<std::thread> threads;
  for (unsigned id = 0; id < 4; ++id) threads.emplace_back(work, id);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  shelf.clear();
  const auto stats = pool->stats();
  EXPECT_EQ(stats.bytes_in_use, 0u);
  EXPECT_LE(stats.bytes_idle, 20000u);
  EXPECT_EQ(stats.hits + stats.misses, 8000u);
  EXPECT_GT(stats.hits, 4000u);
}

TEST(TensorPool, WhatOneThreadGivesBackAnotherFinds) {
  TensorPool pool;
  const std::byte* memory = nullptr;
  std::thread([&] { memory = pool.allocate(3000).data(); }).join();
  EXPECT_EQ(pool.allocate(3000).data(), memory);
  EXPECT_EQ(pool.stats().hits, 1u);
}

TEST(TensorPool, ThePoolMayDieWhileThreadsGiveBack) {
  for (int round = 0; round < 50; ++round) {
    auto pool = std::make_unique<TensorPool>();
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      std::vector<Buffer> held;
      for (int k = 0; k < 10; ++k) held.push_back(pool->allocate(1000));
      threads.emplace_back([mine = std::move(held)]() mutable { mine.clear(); });
    }
    pool.reset();
    for (std::thread& thread : threads) thread.join();
  }
}

#ifdef __SANITIZE_ADDRESS__
TEST(TensorPool, SanitizerSeesUseAfterReturnAndReadsBeyondTheEnd) {
  TensorPool pool;
  const volatile std::byte* gone = pool.allocate(1000).data();
  EXPECT_DEATH(static_cast<void>(gone[0]), "use-after-poison");
  const Buffer held = pool.allocate(1000);
  const volatile std::byte* data = held.data();
  EXPECT_DEATH(static_cast<void>(data[1001]), "use-after-poison");  // inside the class of 1024
}
#endif

}  // namespace
}  // namespace butterfly
