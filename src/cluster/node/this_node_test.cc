// This machine as a node: figures are there and fit together; how fast they are is not a test's business.
#include "cluster/node/this_node.h"

#include <gtest/gtest.h>

#include "cluster/node/kernel_rates.h"

namespace butterfly::cluster {
namespace {

kernels::MachineProbe made_up_probe() {
  kernels::MachineProbe probe;
  probe.threads = 4;
  probe.memory = {{"L1", 100, {1e11, 4e11}, {}}, {"DRAM", 1000, {10e9, 25e9}, {}}};
  probe.f32 = {40e9, 150e9};
  probe.int8 = {200e9, 700e9};
  return probe;
}

TEST(ThisNode, TakesTheProbesFigures) {
  const NodeSpec node = node_from_probe(made_up_probe(), 1000, 100);
  EXPECT_EQ(node.threads, 4u);
  EXPECT_EQ(node.ram_bytes, 900u);
  EXPECT_DOUBLE_EQ(node.memory.with(1), 10e9);
  EXPECT_DOUBLE_EQ(node.memory.with(2), 20e9);
  EXPECT_DOUBLE_EQ(node.memory.with(4), 25e9);
  EXPECT_DOUBLE_EQ(node.int8.with(4), 700e9);
  EXPECT_EQ(node_from_probe(made_up_probe(), 10, 100).ram_bytes, 0u);
  const ClusterSpec cluster = cluster_of(node);
  EXPECT_NO_THROW(cluster.check());
}

TEST(ThisNode, CalibratedRatesAreTheMeasuredOnes) {
  NodeSpec node = node_from_probe(made_up_probe(), 1000);
  calibrate(node, {.weight_bytes_per_s = 15e9, .operations_per_s = 210e9}, DType::kQ4_0);
  EXPECT_DOUBLE_EQ(node.memory_rate(), 15e9);
  EXPECT_DOUBLE_EQ(node.int8_rate(), 210e9);
  calibrate(node, {.weight_bytes_per_s = 15e9, .operations_per_s = 75e9}, DType::kF16);
  EXPECT_DOUBLE_EQ(node.f32_rate(), 75e9);
}

TEST(ThisNode, KernelsAreMeasured) {
  ThreadPool pool(2);
  for (DType type : {DType::kQ4_0, DType::kF16}) {
    const KernelRates rates = measure_kernels(pool, type);
    EXPECT_GT(rates.weight_bytes_per_s, 1e6);
    EXPECT_GT(rates.operations_per_s, 1e6);
  }
}

}  // namespace
}  // namespace butterfly::cluster
