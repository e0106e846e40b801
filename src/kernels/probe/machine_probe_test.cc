// The machine probe: figures are there, related as they must be, on every target. How large they are is not
// tested.
#include "kernels/probe/machine_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/probe/memory_loops.h"
#include "kernels/probe/peak_loops.h"
#include "kernels/testing/shape_sweep.h"

namespace butterfly::kernels {
namespace {

TEST(MachineProbe, EveryFigureIsMeasured) {
  ThreadPool pool(2);
  const MachineProbeOptions quick{.dram_bytes = 4 << 20, .time_per_figure = std::chrono::milliseconds(1)};
  const MachineProbe probe = probe_machine(pool, quick);
  EXPECT_EQ(probe.threads, 2u);
  EXPECT_EQ(probe.target, target_name());
  ASSERT_FALSE(probe.memory.empty());
  EXPECT_EQ(probe.memory.back().level, "DRAM");
  EXPECT_EQ(probe.memory.back().bytes, 4u << 20);
  std::vector<Rate> rates = {probe.f32, probe.int8};
  for (const MemoryRate& m : probe.memory) rates.insert(rates.end(), {m.read, m.copy});
  for (const Rate& rate : rates) {
    EXPECT_TRUE(std::isfinite(rate.one) && rate.one > 0);
    EXPECT_TRUE(std::isfinite(rate.all) && rate.all > 0);
  }
  EXPECT_THAT(to_text(probe),
              ::testing::AllOf(::testing::HasSubstr("DRAM read"), ::testing::HasSubstr("GFLOP/s")));
}

TEST(MachineProbe, LoopsDoTheirWorkOnEveryTarget) {
  struct alignas(64) Block {
    float values[1024];
  };
  Block a{}, b{}, out{};
  for_each_target([&](const std::string& target) {
    EXPECT_GT(run_fma(10), 0u) << target;
    EXPECT_GT(run_int8(10), 0u) << target;
    EXPECT_NE(std::string(int8_instruction()), "") << target;
    for (StoreKind store : {StoreKind::kPlain, StoreKind::kStream}) {
      for (int i = 0; i < 1024; ++i) a.values[i] = static_cast<float>(i);
      out = {};
      copy_memory(a.values, out.values, 1024, store);
      EXPECT_EQ(first_difference(a.values, out.values, 1024), 1024u) << target;
      out = {};
      merge_memory(b.values, a.values, out.values, 1024, store);
      EXPECT_EQ(first_difference(a.values, out.values, 1024), 1024u) << target;
    }
    // The bitwise or of what is read, of lane 0 on vector targets.
    EXPECT_EQ(read_memory(b.values, 1024), 0) << target;
    std::fill_n(a.values, 1024, 2.5f);
    EXPECT_EQ(read_memory(a.values, 1024), 2.5f) << target;
    EXPECT_EQ(read_memory2(a.values, b.values, 1024), 2.5f) << target;
  });
}

}  // namespace
}  // namespace butterfly::kernels
