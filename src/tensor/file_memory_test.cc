#include "tensor/file_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "base/testing/temp_dir.h"
#include "tensor/tensor.h"

namespace butterfly {
namespace {

// Whether the address lies in a mapping of a file below the folder.
bool lies_in_file(const std::byte* data, const std::filesystem::path& folder) {
  std::ifstream maps("/proc/self/maps");
  const auto at = reinterpret_cast<uintptr_t>(data);
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) == 2 && begin <= at && at < end)
      return line.find(folder.string()) != std::string::npos;
  }
  return false;
}

TEST(FileMemory, LargeBuffersOfTheScopeLieInFiles) {
  const testing::TempDir dir;
  const std::filesystem::path folder = dir / "state";
  Tensor large, small, elsewhere, other;
  {
    const FileMemoryScope scope(folder);
    large = Tensor::zeros(DType::kF32, {1000, 100});
    small = Tensor::zeros(DType::kF32, {10});
    std::thread([&] { other = Tensor::zeros(DType::kF32, {1000, 100}); }).join();
  }
  elsewhere = Tensor::zeros(DType::kF32, {1000, 100});
  EXPECT_TRUE(lies_in_file(large.raw(), folder));
  EXPECT_FALSE(lies_in_file(small.raw(), folder));
  EXPECT_FALSE(lies_in_file(other.raw(), folder)) << "a scope is of one thread";
  EXPECT_FALSE(lies_in_file(elsewhere.raw(), folder));
  // Zeroed, writable, aligned; and nothing is left in the folder under a name.
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large.raw()) % kAlignment, 0u);
  for (int64_t i = 0; i < large.count(); ++i) ASSERT_EQ(large.data<float>()[i], 0);
  std::memset(large.raw(), 1, large.bytes());
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST(FileMemory, NoRoomIsAnError) {
  const testing::TempDir dir;
  EXPECT_THROW(allocate_in_file(dir / "state", size_t{1} << 55), Error);
  EXPECT_THROW(allocate_in_file("/proc/no-such-folder", 1 << 20), std::exception);
}

}  // namespace
}  // namespace butterfly
