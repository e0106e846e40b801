// Steps whose time is known in closed form.
#include "cluster/training/step_sim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace butterfly::cluster {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kParameters = uint64_t{64} << 20;  // 256 MiB
StepSimSpec equal(size_t nodes, double micro_batch_s, double bandwidth) {
  StepSimSpec spec{.parameters = kParameters, .micro_batches = 4 * nodes};
  spec.nodes.assign(nodes, {.micro_batch_s = micro_batch_s, .bandwidth = bandwidth});
  return spec;
}

TEST(StepSim, OneNodeComputesAndSendsNothing) {
  const StepSimReport report = simulate_step(equal(1, 0.5, 1e6), step_sim_modes()[0]);
  EXPECT_DOUBLE_EQ(report.step_s, 2.0);
  EXPECT_EQ(report.bytes, 0);
}

// Slow links: 2 (n - 1) / n of the bytes go out of every node, and only a part of the last backward pass
// hides some.
TEST(StepSim, SlowLinksTakeWhatTheBytesTake) {
  for (const size_t nodes : {2, 4, 8}) {
    const double bandwidth = 12.5e6, compute = 4 * 0.25;
    const StepSimReport report = simulate_step(equal(nodes, 0.25, bandwidth), step_sim_modes()[0]);
    const double bytes = 2.0 * static_cast<double>(nodes - 1) / static_cast<double>(nodes) * kParameters * 4;
    EXPECT_NEAR(report.bytes, bytes * static_cast<double>(nodes), 1);
    const double last = static_cast<double>(nodes - 2) / static_cast<double>(nodes) * kParameters * 4;
    EXPECT_LE(report.step_s, compute + (last + bytes) / bandwidth + 1e-9) << nodes;
    EXPECT_GE(report.step_s, compute - 0.25 * 2 / 3 + bytes / bandwidth - 1e-9) << nodes;
  }
}

TEST(StepSim, FastLinksHideGradientsBehindTheBackwardPass) {
  const StepSimReport report = simulate_step(equal(2, 1, 1e12), step_sim_modes()[0]);
  EXPECT_NEAR(report.step_s, 4, 0.01);
}

TEST(StepSim, FewerBitsTakeFewerBytes) {
  double before = 1e300;
  for (const StepSimMode& mode : step_sim_modes()) {
    const StepSimReport report = simulate_step(equal(4, 0.01, 12.5e6), mode);
    const double expected = 0.75 * kParameters * (mode.gradient_bytes + 4) * 4;
    EXPECT_NEAR(report.bytes, expected, 1e-6 * expected) << mode.name;
    EXPECT_LE(report.bytes, before);
    before = report.bytes;
  }
}

TEST(StepSim, ASlowNodeGetsFewerMicroBatches) {
  StepSimSpec spec = equal(2, 0.1, 1e12);
  spec.nodes[1].micro_batch_s = 0.7;
  EXPECT_NEAR(simulate_step(spec, step_sim_modes()[0]).step_s, 0.7, 0.01);  // seven and one of eight
}

TEST(StepSim, FilesAreReadAndMistakesAreNamed) {
  const StepSimSpec spec = parse_step_sim(
      "parameters = 1000\nmicro_batches = 8\n[[node]]\ncount = 3\nmicro_batch_ms = 20\nmbit = 100\n[[node]]\n"
      "micro_batch_ms = 40\nmbit = 1000\nlatency_ms = 0.5\n",
      "t.toml");
  ASSERT_EQ(spec.nodes.size(), 4u);
  EXPECT_DOUBLE_EQ(spec.nodes[2].bandwidth, 12.5e6);
  EXPECT_DOUBLE_EQ(spec.nodes[3].micro_batch_s, 0.04);
  const auto refused = [](const std::string& text) {
    try {
      (void)parse_step_sim(text, "t.toml");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing was refused");
  };
  EXPECT_THAT(refused("micro_batches = 1\n"), HasSubstr("parameters"));
  EXPECT_THAT(refused("parameters = 1\nmicro_batches = 1\n"), HasSubstr("[[node]]"));
  EXPECT_THAT(
      refused("parameters = 1\nmicro_batches = 1\n[[node]]\nmicro_batch_ms = 1\nmbit = 1\ncount = 5000\n"),
      HasSubstr("at most 4096 nodes"));
}

}  // namespace
}  // namespace butterfly::cluster
