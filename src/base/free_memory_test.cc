#include "base/free_memory.h"

#include <gtest/gtest.h>

#include "base/testing/temp_dir.h"

namespace butterfly {
namespace {

TEST(FreeMemory, IsWhatTheGroupLeaves) {
  const testing::TempDir root;
  root.write("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable:     900 kB\n");
  root.write("proc/self/cgroup", "0::/box\n");
  EXPECT_EQ(free_memory_bytes(root.path()), 900u << 10);
  root.write("sys/fs/cgroup/box/memory.max", "500000\n");
  root.write("sys/fs/cgroup/box/memory.current", "300000\n");
  root.write("sys/fs/cgroup/box/memory.stat", "anon 1\ninactive_file 100000\n");
  EXPECT_EQ(free_memory_bytes(root.path()), 300'000u);
  root.write("sys/fs/cgroup/box/memory.current", "800000\n");
  EXPECT_EQ(free_memory_bytes(root.path()), 0u);
}

TEST(FreeMemory, WithoutProcAllOfTheMachineCounts) {
  const testing::TempDir root;
  EXPECT_GT(free_memory_bytes(root.path()), 0u);
}

}  // namespace
}  // namespace butterfly
