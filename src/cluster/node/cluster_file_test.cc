// Cluster, plan and workload files: what they mean, and what is said of mistakes.
#include "cluster/node/cluster_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "cluster/partition/plan_file.h"
#include "cluster/sim/workload_file.h"

namespace butterfly::cluster {
namespace {

using ::testing::HasSubstr;

constexpr const char* kCluster = R"(
coordinator = "b2"

[net.wifi]
latency_ms = 2
bandwidth_mbit = 80

[[node]]
name = "a"
threads = 8
memory_gb_s = 40
memory_one_gb_s = 15
int8_gops = 800
f32_gflops = 300
ram = "12 GiB"
disk_gb_s = 2.5
memory_efficiency = 0.5
overhead_us = 3

[[node]]
name = "b"
count = 2
memory_gb_s = 10
int8_gops = 80
ram = 1000
use_threads = 2
net = "wifi"

[[link]]
from = "a"
to = "b1"
latency_ms = 0.5
both = false
)";

TEST(ClusterFile, SaysWhatNodesAndLinksAre) {
  const ClusterSpec cluster = parse_cluster(kCluster, "c.toml");
  ASSERT_EQ(cluster.size(), 3u);
  EXPECT_EQ(cluster.coordinator, 2u);
  const NodeSpec& a = cluster.nodes[0];
  EXPECT_EQ(a.threads, 8u);
  EXPECT_DOUBLE_EQ(a.memory_rate(), 20e9);
  EXPECT_DOUBLE_EQ(a.memory.with(2), 30e9);
  EXPECT_DOUBLE_EQ(a.int8.with(1), 100e9);
  EXPECT_EQ(a.ram_bytes, uint64_t{12} << 30);
  EXPECT_DOUBLE_EQ(a.disk, 2.5e9);
  EXPECT_DOUBLE_EQ(a.piece_overhead_s, 3e-6);
  EXPECT_EQ(cluster.nodes[1].name, "b1");
  EXPECT_EQ(cluster.nodes[2].ram_bytes, 1000u);
  EXPECT_DOUBLE_EQ(cluster.nodes[2].int8.with(cluster.nodes[2].threads), 40e9);
  EXPECT_DOUBLE_EQ(cluster.nodes[2].f32.all, 20e9);
  EXPECT_DOUBLE_EQ(cluster.link(0, 1).latency_s, 0.0005);
  EXPECT_DOUBLE_EQ(cluster.link(1, 0).latency_s, 0.0021);
  EXPECT_DOUBLE_EQ(cluster.link(1, 2).latency_s, 0.004);
  EXPECT_DOUBLE_EQ(cluster.link(0, 2).bandwidth, 10e6);
}

std::string cluster_error(const std::string& text) {
  try {
    parse_cluster(text, "c.toml");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ClusterFile, MistakesHaveALine) {
  const std::string node = "[[node]]\nname = 'a'\nmemory_gb_s = 1\nint8_gops = 1\nram = '1 GiB'\n";
  EXPECT_EQ(cluster_error(node), "accepted");
  EXPECT_THAT(cluster_error(""), HasSubstr("c.toml: the cluster has no nodes"));
  EXPECT_THAT(cluster_error("[[node]\n"), HasSubstr("c.toml:1: "));
  EXPECT_THAT(cluster_error("[[node]]\nname = 'a'\n"), HasSubstr("c.toml:1: expected a key 'memory_gb_s'"));
  EXPECT_THAT(cluster_error("[[node]]\nname = 3\n"), HasSubstr("c.toml:2: name: expected a string"));
  EXPECT_THAT(cluster_error(node + "colour = 'red'\n"),
              HasSubstr("c.toml:6: key 'colour' is not known here"));
  EXPECT_THAT(cluster_error(node + "threads = 0\n"),
              HasSubstr("c.toml:6: threads: expected a whole number from 1"));
  EXPECT_THAT(cluster_error(node + "disk_gb_s = -1\n"),
              HasSubstr("c.toml:6: disk_gb_s: expected a number of at least 0"));
  EXPECT_THAT(cluster_error(node + "net = 'x'\n"), HasSubstr("found 'x'"));
  EXPECT_THAT(cluster_error(node + node), HasSubstr("two nodes have the name 'a'"));
  EXPECT_THAT(cluster_error(node + "[[link]]\nfrom = 'a'\nto = 'z'\n"),
              HasSubstr("c.toml:8: to: expected the name of a node, found 'z'"));
  EXPECT_THAT(cluster_error("node = 3\n"), HasSubstr("expected tables [[node]]"));
  EXPECT_THROW(read_cluster("/does/not/exist.toml"), Error);
}

TEST(PlanFile, StagesByNameAndCount) {
  const ClusterSpec cluster = parse_cluster(kCluster, "c.toml");
  const Plan plan = parse_plan("[[stage]]\nnode='b1'\npieces=3\n[[stage]]\nnodes=['a','b2']\npieces=4\n",
                               "p.toml", cluster);
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.stages[0], (Stage{{1}, 0, 3, {}}));
  EXPECT_EQ(plan.stages[1], (Stage{{0, 2}, 3, 7, {}}));
  const std::string both =
      "[[stage]]\nnode='b1'\npieces=3\n[[stage]]\nnodes=['a','b2']\nshares=[5,3]\npieces=4\n";
  const Plan shared = parse_plan(both, "p.toml", cluster);
  EXPECT_EQ(shared.stages[1], (Stage{{0, 2}, 3, 7, {0.625, 0.375}}));
  EXPECT_EQ(parse_plan(plan_text(shared, cluster), "again.toml", cluster), shared);
  const auto message = [&](const char* text) {
    try {
      parse_plan(text, "p.toml", cluster);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(message(""), HasSubstr("at least one [[stage]]"));
  EXPECT_THAT(message("[[stage]]\nnode='c'\npieces=1\n"),
              HasSubstr("p.toml:2: node: expected the name of a node"));
  EXPECT_THAT(message("[[stage]]\nnode='a'\n"), HasSubstr("how many pieces"));
}

TEST(WorkloadFile, ReadsAllOfIt) {
  SimCluster cluster;
  cluster.stages = {{"a", {}}, {"b", {}}};
  const Workload w = parse_workload(R"(
requests = 50
rate = 2.5
prompt = 10
prompt_max = 20
generate = 7
batch = 4
streams = 9
seed = 3
[[slowdown]]
node = "b"
from_s = 1
to_s = 2
factor = 10
[[failure]]
node = "a"
at_s = 5
recovery_s = 0.5
replay = false
)",
                                    "w.toml", cluster);
  EXPECT_EQ(w.requests, 50u);
  EXPECT_EQ(w.rate, 2.5);
  EXPECT_EQ(w.prompt_max, 20u);
  EXPECT_EQ(w.generate_min, 7u);
  EXPECT_EQ(w.generate_max, 7u);
  EXPECT_EQ(w.streams_max, 9u);
  ASSERT_EQ(w.slowdowns.size(), 1u);
  EXPECT_EQ(w.slowdowns[0].stage, 1u);
  EXPECT_EQ(w.slowdowns[0].factor, 10);
  ASSERT_EQ(w.failures.size(), 1u);
  EXPECT_FALSE(w.failures[0].replay);
  EXPECT_THROW(parse_workload("rate = 1\nclients = 2\n", "w.toml", cluster), Error);
  EXPECT_THROW(parse_workload("[[failure]]\nnode = 'c'\nat_s = 1\nrecovery_s = 1\n", "w.toml", cluster),
               Error);
  EXPECT_THROW(parse_workload("prompt = 9\nprompt_max = 3\n", "w.toml", cluster), Error);
}

}  // namespace
}  // namespace butterfly::cluster
