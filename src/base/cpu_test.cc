#include "base/cpu.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

#include "base/cgroup.h"
#include "base/testing/temp_dir.h"

namespace butterfly {
namespace {

using testing::TempDir;

TEST(Cgroup, NoFilesMeansNoLimit) {
  const TempDir root;
  EXPECT_EQ(cgroup_cpu_quota(root.path()), std::nullopt);
  EXPECT_EQ(cgroup_memory_limit(root.path()), std::nullopt);
}

TEST(Cgroup, Version2TakesTheTightestOnTheWayUp) {
  const TempDir root;
  root.write("proc/self/cgroup", "0::/user.slice/job.scope\n");
  root.write("sys/fs/cgroup/user.slice/job.scope/cpu.max", "max 100000\n");
  root.write("sys/fs/cgroup/user.slice/job.scope/memory.max", "2000000\n");
  root.write("sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n");
  root.write("sys/fs/cgroup/user.slice/memory.max", "1000000\n");
  root.write("sys/fs/cgroup/cpu.max", "400000 100000\n");
  EXPECT_EQ(cgroup_cpu_quota(root.path()), 1.5);
  EXPECT_EQ(cgroup_memory_limit(root.path()), 1000000u);
}

TEST(Cgroup, Version2InsideAContainerSeesItsRoot) {
  const TempDir root;
  root.write("proc/self/cgroup", "0::/\n");
  root.write("sys/fs/cgroup/cpu.max", "50000 100000\n");
  root.write("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(cgroup_cpu_quota(root.path()), 0.5);
  EXPECT_EQ(cgroup_memory_limit(root.path()), std::nullopt);
}

TEST(Cgroup, Version1WithThePathOfTheHost) {
  const TempDir root;
  root.write("proc/self/cgroup",
             "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "300000\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n");
  EXPECT_EQ(cgroup_cpu_quota(root.path()), 3.0);
  EXPECT_EQ(cgroup_memory_limit(root.path()), 536870912u);
}

TEST(Cgroup, Version1Unlimited) {
  const TempDir root;
  root.write("proc/self/cgroup", "5:memory:/\n4:cpuacct,cpu:/\n");
  root.write("sys/fs/cgroup/cpuacct,cpu/cpu.cfs_quota_us", "-1\n");
  root.write("sys/fs/cgroup/cpuacct,cpu/cpu.cfs_period_us", "100000\n");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(cgroup_cpu_quota(root.path()), std::nullopt);
  EXPECT_EQ(cgroup_memory_limit(root.path()), std::nullopt);
}

// "cpuset" is another controller than "cpu".
TEST(Cgroup, ControllersAreComparedWhole) {
  const TempDir root;
  root.write("proc/self/cgroup", "4:cpuset:/\n");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpu_quota(root.path()), std::nullopt);
}

TEST(Cgroup, DamagedFilesMeanNoLimit) {
  const TempDir root;
  root.write("proc/self/cgroup", "nonsense\n0::/\n:\n");
  root.write("sys/fs/cgroup/cpu.max", "0 0\n");
  root.write("sys/fs/cgroup/memory.max", "99999999999999999999999\n");
  EXPECT_EQ(cgroup_cpu_quota(root.path()), std::nullopt);
  EXPECT_EQ(cgroup_memory_limit(root.path()), std::nullopt);
}

TEST(Cpu, AllowedCpusFollowAffinity) {
  const std::vector<int> all = allowed_cpus();
  ASSERT_FALSE(all.empty());
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(all.back(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    EXPECT_EQ(allowed_cpus(), std::vector<int>{all.back()});
    EXPECT_EQ(default_thread_count(), 1u);
  }).join();
  EXPECT_EQ(allowed_cpus(), all);
}

TEST(Cpu, CachesAndNameAreReadFromTheSystemsFiles) {
  const TempDir root;
  const auto cache = [&](const char* index, const char* level, const char* type, const char* size) {
    const std::string folder = std::string("sys/devices/system/cpu/cpu0/cache/") + index + "/";
    root.write(folder + "level", level);
    root.write(folder + "type", type);
    root.write(folder + "size", size);
  };
  cache("index0", "1\n", "Data\n", "48K\n");
  cache("index1", "1\n", "Instruction\n", "32K\n");
  cache("index2", "2\n", "Unified\n", "2048K\n");
  cache("index3", "3\n", "Unified\n", "260M\n");
  root.write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some Processor @ 2 GHz\n");
  const CacheSizes sizes = cache_sizes(root.path());
  EXPECT_EQ(sizes.l1d_bytes, 48u << 10);
  EXPECT_EQ(sizes.l2_bytes, 2u << 20);
  EXPECT_EQ(sizes.l3_bytes, 260u << 20);
  EXPECT_EQ(cpu_model_name(root.path()), "Some Processor @ 2 GHz");
}

TEST(Cpu, UnknownMachinesGiveEmptyAnswers) {
  const TempDir root;
  EXPECT_EQ(cache_sizes(root.path()).l1d_bytes, 0u);
  EXPECT_EQ(cpu_model_name(root.path()), "unknown");
}

TEST(Cpu, ThisMachineHasMemory) {
  EXPECT_GT(memory_limit_bytes(), 16u << 20);
  EXPECT_LT(memory_limit_bytes(), uint64_t{1} << 60);
}

}  // namespace
}  // namespace butterfly
