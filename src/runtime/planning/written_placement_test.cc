#include "runtime/planning/written_placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "cluster/testing/member_samples.h"
#include "runtime/planning/model_shape.h"
#include "runtime/planning/plan_placement.h"

namespace butterfly::runtime {
namespace {

using cluster::testing::capabilities;
using cluster::testing::node_id;
using ::testing::AllOf;
using ::testing::HasSubstr;

cluster::WrittenPlan written(const std::string& text) { return cluster::parse_written_plan(text, "p.toml"); }

std::string stage(const std::string& node, size_t pieces) {
  return fmt::format("[[stage]]\nnode = '{}'\npieces = {}\n", node, pieces);
}

std::string refusal(const std::string& text) {
  try {
    check_written_plan(written(text), 34, "node-1");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(WrittenPlanTest, WhatCannotBecomeRightIsRefusedAtOnce) {
  EXPECT_EQ(refusal(stage("node-2", 20) + stage("node-1", 14)), "");
  EXPECT_THAT(refusal(stage("node-2", 20) + stage("node-1", 13)),
              AllOf(HasSubstr("expected 34"), HasSubstr("found 33")));
  EXPECT_THAT(refusal(stage("node-1", 20) + stage("node-2", 14)),
              AllOf(HasSubstr("p.toml:5"), HasSubstr("expected 'node-1' for the last stage")));
  EXPECT_THAT(refusal(stage("node-1", 10) + stage("node-2", 10) + stage("node-1", 14)),
              HasSubstr("'node-1' has a stage already"));
  EXPECT_EQ(refusal(stage("node-3", 20) + "[[stage]]\nnodes = ['node-1', 'node-2']\npieces = 14\n"), "");
  EXPECT_THAT(refusal("[[stage]]\nnodes = ['node-2', 'node-1']\npieces = 34\n"),
              HasSubstr("expected 'node-1' for the last stage, as its first node"));
  EXPECT_THAT(refusal("[[stage]]\nnodes = ['node-1', 'node-1']\npieces = 34\n"),
              HasSubstr("'node-1' has a stage already"));
  EXPECT_THAT(refusal("[[stage]]\nnodes = ['node-1', '2', '3', '4', '5', '6', '7', '8', '9']\npieces = 34\n"),
              AllOf(HasSubstr("expected up to 8"), HasSubstr("found 9")));
  for (const char* shares : {"[4, 3]", "[8]", "[8, 0]", "[9, -1]", "'4, 4'"})
    EXPECT_THAT(
        refusal(fmt::format("[[stage]]\nnodes = ['node-1', 'node-2']\nshares = {}\npieces = 34\n", shares)),
        AllOf(HasSubstr("p.toml:3: shares"), HasSubstr("expected")))
        << shares;
}

struct WrittenPlacementTest : ::testing::Test {
  model::ModelFile file = shape_file(*find_shape("llama-8b"), DType::kQ4_0, DType::kQ8_0);
  PlacementOptions options{.written = written(stage("node-3", 20) + stage("node-1", 14)),
                           .settings = {.context = 2048, .positions = 4096, .sequences = 2, .rows_max = 128}};
  cluster::PlanQuestion question(const std::vector<int>& nodes, uint64_t ram_bytes) {
    cluster::PlanQuestion asked;
    asked.coordinator = node_id(1);
    for (const int node : nodes) asked.nodes.push_back({node_id(node), capabilities(ram_bytes), ram_bytes});
    return asked;
  }
};

TEST_F(WrittenPlacementTest, IsFollowedToTheLetter) {
  const auto placement = plan_placement(file, question({1, 2, 3}, uint64_t{16} << 30), options);
  ASSERT_TRUE(placement.ok()) << placement.status().text();
  ASSERT_EQ(placement->stages.size(), 2u);
  EXPECT_EQ(placement->stages[0].first(), node_id(3));
  EXPECT_EQ(placement->stages[0].end, 20u);
  EXPECT_EQ(placement->stages[1].first(), node_id(1));
  EXPECT_EQ(cluster::why_not_whole(*placement), "");
}

TEST_F(WrittenPlacementTest, HasGroupsWithTheirShares) {
  options.written = written(
      "[[stage]]\nnodes = ['node-3', 'node-4']\nshares = [5, 3]\npieces = 20\n"
      "[[stage]]\nnodes = ['node-1', 'node-2']\npieces = 14\n");
  const auto placement = plan_placement(file, question({1, 2, 3, 4}, uint64_t{16} << 30), options);
  ASSERT_TRUE(placement.ok()) << placement.status().text();
  EXPECT_EQ(cluster::why_not_whole(*placement), "");
  ASSERT_EQ(placement->stages.size(), 2u);
  const auto& first = placement->stages[0].members;
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].node, node_id(3));
  EXPECT_EQ(first[0].share.of(cluster::ShareKind::kHeads), (cluster::ShareRange{0, 5, 8}));
  EXPECT_EQ(first[1].share.of(cluster::ShareKind::kVocabulary), (cluster::ShareRange{5, 8, 8}));
  // Without shares those that are fastest; the coordinator first.
  const auto& last = placement->stages[1].members;
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(last[0].node, node_id(1));
  EXPECT_EQ(last[0].share.of(cluster::ShareKind::kColumns), (cluster::ShareRange{0, 4, 8}));
  EXPECT_GT(first[0].memory_bytes, first[1].memory_bytes);
}

TEST_F(WrittenPlacementTest, WaitsForWhoIsNotHereByName) {
  const auto placement = plan_placement(file, question({1, 2}, uint64_t{16} << 30), options);
  EXPECT_EQ(placement.status().code(), Errc::kNotFound);
  EXPECT_THAT(placement.status().text(),
              AllOf(HasSubstr("waiting for node-3 of p.toml"), HasSubstr("here: node-1, node-2")));
}

TEST_F(WrittenPlacementTest, SaysWhereItDoesNotFit) {
  const auto placement = plan_placement(file, question({1, 2, 3}, uint64_t{3} << 30), options);
  EXPECT_EQ(placement.status().code(), Errc::kOutOfMemory);
  EXPECT_THAT(placement.status().text(), AllOf(HasSubstr("node-3 would hold"), HasSubstr("enough together")));
}

TEST_F(WrittenPlacementTest, ABrokenPairIsNamedAndNotPlannedAround) {
  auto asked = question({1, 2, 3}, uint64_t{16} << 30);
  asked.broken = {{node_id(3).key, node_id(1).key}};
  const auto placement = plan_placement(file, asked, options);
  EXPECT_EQ(placement.status().code(), Errc::kNotFound);
  EXPECT_THAT(placement.status().text(), HasSubstr("node-3 cannot reach node-1"));
}

}  // namespace
}  // namespace butterfly::runtime
