#include "base/machine_load.h"

#include <gtest/gtest.h>

#include "base/testing/temp_dir.h"

namespace butterfly {
namespace {

TEST(MachineLoad, IsTheShareSinceTheSampleBefore) {
  const testing::TempDir root;
  MachineLoadSampler sampler(root.path());
  root.write("proc/stat", "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 2 3\n");
  EXPECT_EQ(sampler.sample().busy, 0);
  root.write("proc/stat", "cpu  160 0 110 820 5 0 5 0 0 0\n");
  EXPECT_DOUBLE_EQ(sampler.sample().busy, 0.75);
  EXPECT_EQ(sampler.sample().busy, 0) << "no time has passed";
  root.write("proc/stat", "cpu  1 0 1 8 0 0 0 0 0 0\n");
  EXPECT_EQ(sampler.sample().busy, 0) << "counters that go back say nothing";
}

TEST(MachineLoad, MemoryHeatAndThrottling) {
  const testing::TempDir root;
  EXPECT_EQ(MachineLoadSampler(root.path()).sample(), MachineLoad{}) << "nothing can be seen";
  root.write("proc/self/status", "Name:\tx\nVmRSS:\t 900 kB\nRssAnon:\t     12 kB\n");
  root.write("sys/class/thermal/thermal_zone0/temp", "45500\n");
  root.write("sys/class/thermal/thermal_zone1/temp", "71000\n");
  root.write("sys/class/thermal/thermal_zone2/temp", "6553500\n");
  root.write("sys/class/thermal/cooling_device0/temp", "90000\n");
  root.write("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "3\n");
  root.write("sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "4\n");
  const MachineLoad load = MachineLoadSampler(root.path()).sample();
  EXPECT_EQ(load.process_bytes, 12u << 10);
  EXPECT_DOUBLE_EQ(load.celsius, 71);
  EXPECT_EQ(load.throttles, 7u);
}

TEST(MachineLoad, OfThisMachine) {
  MachineLoadSampler sampler;
  const MachineLoad load = sampler.sample();
  EXPECT_GT(load.process_bytes, 0u);
  EXPECT_LE(sampler.sample().busy, 1);
}

}  // namespace
}  // namespace butterfly
