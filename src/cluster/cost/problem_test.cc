// Times by hand: pieces, nodes and links with round numbers.
#include "cluster/cost/problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "cluster/cost/piece_time.h"
#include "cluster/cost/prediction.h"
#include "cluster/testing/random_problem.h"

namespace butterfly::cluster {
namespace {

using ::testing::HasSubstr;
using testing::unit_node;

TEST(PieceTime, IsTheLongerOfComputeAndMemory) {
  NodeSpec node{
      .name = "n", .threads = 4, .f32 = {10e9, 35e9}, .int8 = {40e9, 160e9}, .memory = {12e9, 20e9}};
  node.compute_efficiency = 0.5;
  node.memory_efficiency = 0.8;
  node.piece_overhead_s = 0.001;
  // Four threads: f32 min(40, 35) x 0.5 = 17.5 GFLOP/s, int8 80 GOP/s, memory min(48, 20) x 0.8 = 16 GB/s.
  const Work decode{
      .f32_flops = 17.5e6, .int8_ops = 160e6, .weight_bytes = 70e6, .kv_bytes = 9e6, .activation_bytes = 1e6};
  const PieceTime time = piece_time(decode, node);
  EXPECT_DOUBLE_EQ(time.compute_s, 0.001 + 0.002);
  EXPECT_DOUBLE_EQ(time.memory_s, 0.005);
  node.other_efficiency = 0.2;  // 7 GFLOP/s
  EXPECT_DOUBLE_EQ(piece_time({.other_flops = 14e6}, node).compute_s, 0.002);
  EXPECT_DOUBLE_EQ(time.seconds(), 0.006);
  Work prefill = decode;
  prefill.int8_ops *= 64;
  EXPECT_DOUBLE_EQ(piece_time(prefill, node).seconds(), 0.001 + 0.128 + 0.001);
  node.threads = 1;
  EXPECT_DOUBLE_EQ(piece_time(decode, node).memory_s, 80e6 / (12e9 * 0.8));
}

PieceList three_pieces() {
  PieceList list{.model = "three", .pieces = {}, .decode_in_bytes = 4};
  for (double bytes : {10.0, 20.0, 30.0}) {
    Piece piece{.name = "p"};
    piece.decode.weight_bytes = bytes;
    piece.prefill.weight_bytes = 10 * bytes;
    piece.weight_bytes = static_cast<uint64_t>(bytes);
    piece.decode_out_bytes = 100;
    piece.prefill_out_bytes = 1000;
    piece.exchanges = 2;
    piece.decode_sum_bytes = 20;
    list.pieces.push_back(piece);
  }
  return list;
}

ClusterSpec two_nodes();

// What every member has whole is added to its share, in bytes and in seconds.
TEST(Problem, MembersHaveTablesWhole) {
  PieceList list = three_pieces();
  const Stage halves{{0, 1}, 0, 3, {0.5, 0.5}};
  ClusterSpec cluster = two_nodes();
  cluster.nodes[1] = cluster.nodes[0];
  cluster.nodes[1].name = "b";
  const double shared_s = Problem(list, cluster, {}).unit_of(halves).seconds(0, 3);
  list.pieces[0].whole_bytes = 10;
  list.pieces[2].decode_whole.weight_bytes = 30;
  const Problem problem(list, cluster, {});
  EXPECT_EQ(problem.member_bytes(1, 0, 3), 60u);
  EXPECT_EQ(problem.member_bytes(0.5, 0, 3), 35u);
  EXPECT_EQ(problem.member_bytes(0.5, 1, 3), 25u);
  const double whole_s = piece_time(list.pieces[2].decode_whole, cluster.nodes[0]).memory_s;
  EXPECT_DOUBLE_EQ(problem.unit_of(halves).seconds(0, 3), shared_s + whole_s / 2);
  for (NodeSpec& node : cluster.nodes) node.ram_bytes = 34;
  EXPECT_EQ(why_not_fit(Problem(list, cluster, {}), {{halves}}),
            "a would hold 35 B of weights and cache, it has room for 34 B");
  cluster.nodes[0].ram_bytes = 35;
  EXPECT_THAT(why_not_fit(Problem(list, cluster, {}), {{halves}}), HasSubstr("b would hold 35 B"));
  cluster.nodes[1].ram_bytes = 35;
  EXPECT_EQ(why_not_fit(Problem(list, cluster, {}), {{halves}}), "");
}

ClusterSpec two_nodes() {
  ClusterSpec cluster;
  cluster.nodes = {unit_node("a"), unit_node("b", 3)};
  cluster.connect_all({0.5, 100});
  return cluster;
}

TEST(Problem, SumsStagesAndHops) {
  const Problem problem(three_pieces(), two_nodes(), {});
  EXPECT_DOUBLE_EQ(problem.units()[0].seconds(0, 2), 30);
  EXPECT_DOUBLE_EQ(problem.units()[1].seconds(1, 3), 50.0 / 3);
  EXPECT_EQ(problem.memory_bytes(1, 3), 50u);
  EXPECT_EQ(problem.cut_classes(), 1u);
  EXPECT_DOUBLE_EQ(problem.hop_at(1, 0, 1).message_s, 0.5 + 1);
  EXPECT_DOUBLE_EQ(problem.hop_at(1, 0, 1).busy_s, 1);
  EXPECT_DOUBLE_EQ(problem.entry(0).message_s, 0);
  EXPECT_DOUBLE_EQ(problem.entry(1).message_s, 0.54);
  EXPECT_DOUBLE_EQ(problem.exit(0).message_s, 0);
  EXPECT_DOUBLE_EQ(problem.exit(1).message_s, 1.5);
}

TEST(Problem, PromptsWeighIn) {
  const Problem problem(three_pieces(), two_nodes(), {.prefill_weight = 0.1});
  EXPECT_DOUBLE_EQ(problem.units()[0].seconds(0, 1), 10 + 0.1 * 100);
  EXPECT_DOUBLE_EQ(problem.hop_at(1, 0, 1).busy_s, 1 + 0.1 * 10);
  EXPECT_DOUBLE_EQ(problem.hop_at(1, 0, 1).message_s, 0.5 * 1.1 + 2);
}

TEST(Problem, GroupsShareBySpeedAndPayForGathering) {
  PieceList list = three_pieces();
  for (Piece& piece : list.pieces) piece.decode.weight_bytes *= 100;
  ClusterSpec cluster = two_nodes();
  cluster.nodes[0].ram_bytes = 100;
  const Problem problem(list, cluster, {.group_size_max = 2});
  ASSERT_EQ(problem.units().size(), 4u);  // a group for each first member
  const Unit& group = problem.units()[2];
  EXPECT_THAT(group.nodes, ::testing::ElementsAre(0, 1));
  EXPECT_DOUBLE_EQ(group.shares[0], 0.25);
  EXPECT_DOUBLE_EQ(group.shares[1], 0.75);
  EXPECT_EQ(group.memory_bytes, 400u);  // a is full with its quarter
  // 1000 bytes at 4 byte/s, two exchanges of 0.5 s, and b sends two subtrees (units 2-4 and 4-8 of 8): twice
  // 20 bytes at 100 byte/s.
  EXPECT_DOUBLE_EQ(group.seconds(0, 1), 250 + 1 + 0.4);
}

TEST(Problem, GroupsThatDoNotHelpAreLeftOut) {
  EXPECT_EQ(Problem(three_pieces(), two_nodes(), {.group_size_max = 2}).units().size(), 4u);
  ClusterSpec slow_links = two_nodes();
  slow_links.connect_all({5, 100});
  EXPECT_EQ(Problem(three_pieces(), slow_links, {.group_size_max = 2}).units().size(), 2u);
}

TEST(Problem, RefusesWhatMakesNoSense) {
  const auto message = [](ClusterSpec cluster, PieceList list = three_pieces()) {
    try {
      Problem(std::move(list), std::move(cluster), {});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  ClusterSpec cluster = two_nodes();
  EXPECT_EQ(message(cluster), "accepted");
  EXPECT_THAT(message(cluster, {.model = "empty", .pieces = {}}), HasSubstr("empty: nothing to plan"));
  cluster.nodes[1].memory = {0, 0};
  EXPECT_THAT(message(cluster), HasSubstr("node b: memory bandwidth: expected more than 0, found 0"));
  cluster = two_nodes();
  cluster.link(1, 0).bandwidth = -1;
  EXPECT_THAT(message(cluster), HasSubstr("link b -> a"));
  cluster = two_nodes();
  cluster.nodes[1].name = "a";
  EXPECT_THAT(message(cluster), HasSubstr("two nodes have the name 'a'"));
  cluster = two_nodes();
  cluster.coordinator = 2;
  EXPECT_THAT(message(cluster), HasSubstr("coordinator 2"));
}

}  // namespace
}  // namespace butterfly::cluster
