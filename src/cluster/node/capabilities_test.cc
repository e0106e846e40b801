// What a node can do: measured, kept, and handed to the planner; links measured over a link.
#include "cluster/node/capabilities.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/cpu.h"
#include "base/testing/temp_dir.h"
#include "cluster/node/capability_file.h"
#include "cluster/node/cpu_share.h"
#include "cluster/node/measure_link.h"
#include "cluster/node/measure_node.h"
#include "cluster/node/topology.h"
#include "cluster/testing/member_samples.h"
#include "cluster/transport/inproc.h"
#include "cluster/transport/message.h"

namespace butterfly::cluster {
namespace {

using ::testing::HasSubstr;

TEST(Capabilities, BecomeANodeOfThePlanner) {
  const Capabilities c = testing::capabilities();
  const NodeSpec node = node_spec(c, "n", DType::kQ4_0, 1000);
  EXPECT_EQ(node.ram_bytes, 1000u);
  EXPECT_EQ(node.threads, 4u);
  EXPECT_DOUBLE_EQ(node.memory_rate(), 20e9);
  EXPECT_DOUBLE_EQ(node.int8_rate(), 190e9);
  // A type that was not measured takes the figures of one that is computed alike.
  EXPECT_DOUBLE_EQ(node_spec(c, "n", DType::kBF16, 0).memory_rate(), 22e9);
}

TEST(Capabilities, HalfOfTheCpuTimeIsHalfTheSpeed) {
  Capabilities c = testing::capabilities();
  const NodeSpec whole = node_spec(c, "n", DType::kQ4_0, 1000);
  c.cpu_share = 0.5;
  const NodeSpec half = node_spec(c, "n", DType::kQ4_0, 1000);
  EXPECT_DOUBLE_EQ(half.memory_rate(), whole.memory_rate() / 2);
  EXPECT_DOUBLE_EQ(half.int8_rate(), whole.int8_rate() / 2);
  EXPECT_DOUBLE_EQ(half.f32_rate(), whole.f32_rate() / 2);
  EXPECT_EQ(half.ram_bytes, whole.ram_bytes);
  NodeSpec again = whole;
  apply_share(again, 0.5);
  EXPECT_DOUBLE_EQ(again.memory.one, half.memory.one);
  apply_share(again, 7);  // more than all there is
  EXPECT_DOUBLE_EQ(again.memory.one, half.memory.one);
}

std::vector<int> first_cpus(int count) {
  std::vector<int> cpus;
  for (int i = 0; i < count; ++i) cpus.push_back(i);
  return cpus;
}

TEST(Topology, NodesOfAMachineAreNearTheirMemory) {
  using Shares = std::vector<std::vector<int>>;
  // CPUs of the second NUMA node are 4 to 7, as hwloc numbers them.
  const std::string two = "numa:2 core:4 pu:1";
  EXPECT_EQ(cpus_of_nodes(first_cpus(8), 2, two), (Shares{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(cpus_of_nodes(first_cpus(8), 4, two), (Shares{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(cpus_of_nodes(first_cpus(8), 1, two), (Shares{{0, 1, 2, 3, 4, 5, 6, 7}}));
  // Nobody has CPUs of both, also where that is not equal.
  EXPECT_EQ(cpus_of_nodes(first_cpus(8), 3, two), (Shares{{0, 1}, {2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(cpus_of_nodes({0, 1, 2, 3, 6, 7}, 2, two), (Shares{{0, 1, 2, 3}, {6, 7}})) << "of an affinity";
  EXPECT_EQ(cpus_of_nodes({0, 1, 2, 3, 6, 7}, 3, two), (Shares{{0, 1}, {2, 3}, {6, 7}}));
  EXPECT_EQ(cpus_of_nodes(first_cpus(2), 3, two), (Shares{{0}, {1}, {0}})) << "more nodes than CPUs";
  // Numbers that go round: threads of a core, cores of a NUMA node.
  const std::string round = "numa:2 core:2 pu:2(indexes=numa:core)";
  for (const auto& share : cpus_of_nodes(first_cpus(8), 2, round)) {
    EXPECT_EQ(share.size(), 4u);
    for (const int cpu : share) EXPECT_EQ(cpu % 2, share[0] % 2) << "of both NUMA nodes";
  }
  EXPECT_EQ(cpus_of_nodes(first_cpus(4), 2, "nonsense"), (Shares{{0, 1}, {2, 3}}));
}

TEST(Capabilities, TopologyIsThere) {
  const Topology topology = this_topology();
  EXPECT_GE(topology.cores, 1u);
  EXPECT_GE(topology.hardware_threads, topology.cores);
  EXPECT_LE(topology.cores, allowed_cpus().size());
}

TEST(Capabilities, MeasuredFiguresAreThere) {
  const butterfly::testing::TempDir folder;
  ThreadPool pool(1);
  MeasureOptions options{.program = "p", .types = {}, .time_per_figure = std::chrono::milliseconds(2)};
  options.dram_bytes = 4 << 20;
  options.disk_folder = folder.path();
  options.disk_bytes = 1 << 20;
  const Capabilities c = measure_node(pool, options);
  EXPECT_GT(c.memory.all, 0);
  EXPECT_GT(c.f32.one, 0);
  EXPECT_GT(c.int8.all, 0);
  EXPECT_GT(c.disk, 0);
  EXPECT_GT(c.ram_limit_bytes, 0u);
  EXPECT_EQ(c.threads, 1u);
  EXPECT_EQ(measure_disk(folder / "none", 1000), 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

struct CapabilityFile : ::testing::Test {
  CapabilityFile() {
    c = testing::capabilities();
    now = {c.program, c.cpu, c.target, c.threads, c.ram_limit_bytes, 0};
  }
  Capabilities load(int64_t unix_s, bool fresh = false) {
    return load_or_measure(state, now, unix_s, fresh, [&] {
      ++measured;
      return c;
    });
  }
  butterfly::testing::TempDir folder;
  StateFolder state = StateFolder::make(folder / "state");
  Capabilities c;
  MeasuredFor now;
  int measured = 0;
};

TEST_F(CapabilityFile, ComesBackAsItWas) {
  const std::string text = to_json(c);
  const Result<Capabilities> back = parse_capabilities(text);
  ASSERT_TRUE(back.ok()) << back.status().text();
  EXPECT_EQ(to_json(*back), text);
  EXPECT_EQ(back->kernels.size(), 2u);
  EXPECT_FALSE(parse_capabilities("{}").ok());
  EXPECT_FALSE(parse_capabilities("nonsense").ok());
}

TEST_F(CapabilityFile, IsMeasuredAgainWhenSomethingChanged) {
  constexpr int64_t kNow = 1'700'000'000;
  load(kNow);
  load(kNow + 1000);
  EXPECT_EQ(measured, 1);
  load(kNow + kCapabilityLife_s + 1);
  EXPECT_EQ(measured, 2);
  load(kNow + kCapabilityLife_s + 2, true);
  EXPECT_EQ(measured, 3);
  now.program = c.program = "0.2.0";
  load(kNow + kCapabilityLife_s + 3);
  EXPECT_EQ(measured, 4);
  state.write("capabilities-4.json", "torn");
  load(kNow + kCapabilityLife_s + 4);
  EXPECT_EQ(measured, 5);
  load(kNow + kCapabilityLife_s + 5);
  EXPECT_EQ(measured, 5);
  now.cpu_quota = 0.5;  // another control group: another file, and the first one stays
  load(kNow + kCapabilityLife_s + 6);
  load(kNow + kCapabilityLife_s + 7);
  EXPECT_EQ(measured, 6);
  now.cpu_quota = 0;
  load(kNow + kCapabilityLife_s + 8);
  EXPECT_EQ(measured, 6);
  MeasuredFor other = now;
  other.ram_limit_bytes = 1 << 30;
  EXPECT_THAT(why_stale(c, other, c.measured_unix_s), HasSubstr("memory limit was 8.00 GiB, is 1.00 GiB"));
}

TEST(MeasureLink, FindsRoundTripAndBandwidth) {
  auto [here, there] = inproc_pair(testing::node_id(0), testing::node_id(1));
  Status answered;
  std::thread other([&, link = there.get()] { answered = answer_measurement(*link); });
  const Result<LinkFigures> figures = measure_link(*here, SystemClock::instance(), {.repeats = 2});
  here->close();
  other.join();
  ASSERT_TRUE(figures.ok()) << figures.status().text();
  EXPECT_TRUE(answered.ok()) << answered.text();
  EXPECT_GT(figures->rtt_s, 0);
  EXPECT_GT(figures->bandwidth, 0);
  ASSERT_FALSE(figures->points.empty());
  for (size_t i = 1; i < figures->points.size(); ++i)
    EXPECT_EQ(figures->points[i].bytes, 4 * figures->points[i - 1].bytes);
  EXPECT_GT(figures->spec().bandwidth, 0);
}

TEST(LinkFigures, AMessageTakesWhatItsSizeTook) {
  // 100 Mbit/s, 2 ms there and back; 16 KiB pass a shaper at once, and 1 KiB costs nothing more than nothing.
  const LinkFigures figures{
      .rtt_s = 2e-3, .bandwidth = 12.5e6, .points = {{1024, 2e-3}, {16384, 2.2e-3}, {262144, 22e-3}}};
  EXPECT_DOUBLE_EQ(figures.message_s(0), 1e-3);
  EXPECT_DOUBLE_EQ(figures.message_s(16384), 1.2e-3);
  EXPECT_DOUBLE_EQ(figures.message_s((1024 + 16384) / 2), 1.1e-3);
  EXPECT_DOUBLE_EQ(figures.message_s(262144 + 12.5e6), 1.021);
  for (const double bytes : {64.0, 8192.0, 262144.0})
    EXPECT_NEAR(figures.spec_for(bytes).message_s(bytes), figures.message_s(bytes), 1e-9) << bytes;
  EXPECT_DOUBLE_EQ(figures.spec_for(8192).bandwidth, 12.5e6);
  // A row that is faster than the bandwidth allows: its own rate.
  const LinkFigures bucket{.rtt_s = 1e-4, .bandwidth = 1e6, .points = {{8192, 2e-4}, {1 << 20, 1.0}}};
  EXPECT_NEAR(bucket.spec_for(8192).message_s(8192), 1.5e-4, 1e-9);
}

TEST(MeasureLink, AnswersNothingElse) {
  auto [here, there] = inproc_pair(testing::node_id(0), testing::node_id(1));
  ASSERT_TRUE(send_message(*here, {.kind = MessageKind::kTokens}, {}, std::chrono::seconds(1)).ok());
  EXPECT_EQ(answer_measurement(*there).code(), Errc::kCorrupt);
  auto [ask, silent] = inproc_pair(testing::node_id(0), testing::node_id(1));
  EXPECT_EQ(answer_measurement(*silent, std::chrono::milliseconds(1)).code(), Errc::kTimeout);
  EXPECT_FALSE(measure_link(*ask, SystemClock::instance(), {.budget = std::chrono::milliseconds(1)}).ok());
}

}  // namespace
}  // namespace butterfly::cluster
