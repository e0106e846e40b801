#include "tensor/buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/testing/temp_dir.h"
#include "tensor/memory.h"

namespace butterfly {
namespace {

bool aligned(const void* data, size_t to) { return reinterpret_cast<uintptr_t>(data) % to == 0; }

TEST(Buffer, IsZeroedAlignedAndWritable) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{100'000},
                             kMapFrom - 1, kMapFrom, kMapFrom + 1, 3 * kMapFrom + 12345}) {
    const Buffer buffer = Buffer::allocate(bytes);
    ASSERT_TRUE(buffer) << bytes;
    EXPECT_EQ(buffer.size(), bytes);
    EXPECT_EQ(buffer.bytes().size(), bytes);
    EXPECT_TRUE(buffer.writable());
    EXPECT_TRUE(aligned(buffer.data(), bytes >= kMapFrom ? size_t{2} << 20 : kAlignment)) << bytes;
    EXPECT_TRUE(std::all_of(buffer.bytes().begin(), buffer.bytes().end(),
                            [](std::byte b) { return b == std::byte{0}; }));
    std::fill(buffer.bytes().begin(), buffer.bytes().end(), std::byte{0xff});
  }
}

TEST(Buffer, RefusesWhatTheSystemCannotGive) {
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX - 4096, size_t{1} << 60}) {
    try {
      Buffer::allocate(bytes);
      FAIL() << bytes;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::kOutOfMemory);
      EXPECT_NE(std::string(error.what()).find(std::to_string(bytes)), std::string::npos) << error.what();
    }
  }
}

TEST(Buffer, EmptyHandleOwnsNothing) {
  const Buffer buffer;
  EXPECT_FALSE(buffer);
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_EQ(buffer.size(), 0u);
  EXPECT_FALSE(buffer.writable());
  EXPECT_EQ(buffer.use_count(), 0);
}

TEST(Buffer, CopiesShareAndTheLastOneGivesBackOnce) {
  alignas(64) static std::byte memory[64];
  int released = 0;
  {
    Buffer first = Buffer::adopt(memory, sizeof(memory), [&](std::byte* data) {
      EXPECT_EQ(data, memory);
      ++released;
    });
    Buffer second = first;
    EXPECT_EQ(first.use_count(), 2);
    EXPECT_EQ(second.data(), memory);
    Buffer third = std::move(second);
    EXPECT_FALSE(second);  // NOLINT: looking at what a move leaves
    EXPECT_EQ(first.use_count(), 2);
    first = third;  // assigning the same memory
    EXPECT_EQ(third.use_count(), 2);
    Buffer& self = first;
    first = self;
    EXPECT_EQ(third.use_count(), 2);
    first = Buffer();
    third = Buffer::allocate(8);
    EXPECT_EQ(released, 1);
  }
  EXPECT_EQ(released, 1);
}

TEST(Buffer, CopiesAndDropsInManyThreads) {
  static std::byte memory[64];
  std::atomic<int> released{0};
  for (int round = 0; round < 50; ++round) {
    Buffer shared = Buffer::adopt(memory, sizeof(memory), [&](std::byte*) { ++released; });
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([copy = shared] {
        for (int k = 0; k < 100; ++k) Buffer another = copy;
      });
    shared = Buffer();
    for (std::thread& thread : threads) thread.join();
    threads.clear();
    ASSERT_EQ(released, round + 1);
  }
}

TEST(Buffer, MappedPartKeepsTheMappingAndIsReadOnly) {
  const testing::TempDir dir;
  auto file = MappedFile::open(dir.write("model", "0123456789"));
  const std::weak_ptr<MappedFile> watch = file;
  Buffer part = Buffer::mapped(std::move(file), 3, 4);
  EXPECT_FALSE(watch.expired());
  EXPECT_FALSE(part.writable());
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(part.data()), part.size()), "3456");
  part = Buffer();
  EXPECT_TRUE(watch.expired());
}

TEST(Buffer, MappedPartOutsideTheFileIsOurMistake) {
  const testing::TempDir dir;
  const auto file = MappedFile::open(dir.write("model", "0123456789"));
  EXPECT_EQ(Buffer::mapped(file, 10, 0).size(), 0u);
  EXPECT_DEATH(Buffer::mapped(file, 3, 8), "3 \\+ 8 of 10");
  EXPECT_DEATH(Buffer::mapped(file, 11, 0), "11 \\+ 0 of 10");
  EXPECT_DEATH(Buffer::mapped(file, 2, SIZE_MAX), "of 10");
}

}  // namespace
}  // namespace butterfly
