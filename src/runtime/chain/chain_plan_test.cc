#include "runtime/chain/chain_plan.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace butterfly::runtime {
namespace {

constexpr size_t kLayers = 4;  // six pieces

cluster::Plan plan(std::vector<std::pair<size_t, size_t>> node_and_end) {
  cluster::Plan plan;
  size_t begin = 0;
  for (const auto& [node, end] : node_and_end) {
    plan.stages.push_back({.nodes = {node}, .begin = begin, .end = end, .shares = {1}});
    begin = end;
  }
  return plan;
}

std::string words(const std::vector<ChainPart>& parts) {
  std::string text;
  for (const ChainPart& part : parts)
    text += std::to_string(part.node) + ": " + to_string(part.range, kLayers) + "; ";
  return text;
}

TEST(ChainPlan, TheCoordinatorHasTheHead) {
  EXPECT_EQ(words(chain_parts(plan({{1, 3}, {0, 6}}), kLayers, 0)),
            "1: embedding, blocks 0 to 1; 0: blocks 2 to 3, head; ");
  EXPECT_EQ(words(chain_parts(plan({{0, 3}, {1, 6}}), kLayers, 0)),
            "0: embedding, blocks 0 to 1; 1: blocks 2 to 3; 0: head; ");
  EXPECT_EQ(words(chain_parts(plan({{2, 1}, {0, 4}, {1, 5}, {3, 6}}), kLayers, 0)),
            "2: embedding; 0: blocks 0 to 2; 1: block 3; 0: head; ")
      << "a node with the head alone has nothing left to do";
  EXPECT_EQ(words(chain_parts(plan({{1, 6}}), kLayers, 0)), "1: embedding, blocks 0 to 3; 0: head; ");
  EXPECT_EQ(words(chain_parts(plan({{0, 6}}), kLayers, 0)), "0: embedding, blocks 0 to 3, head; ");
}

TEST(ChainPlan, RefusesWhatCannotRun) {
  EXPECT_THROW(chain_parts(plan({{0, 3}, {1, 5}}), kLayers, 0), Error);
  EXPECT_THROW(chain_parts(plan({{0, 3}, {1, 7}}), kLayers, 0), Error);
  EXPECT_THROW(chain_parts({}, kLayers, 0), Error);
  cluster::Plan group = plan({{1, 3}, {0, 6}});
  group.stages[0].nodes = {1, 2};
  EXPECT_THROW(chain_parts(group, kLayers, 0), Error);
  cluster::Plan gap = plan({{1, 3}, {0, 6}});
  gap.stages[1].begin = 4;
  EXPECT_THROW(chain_parts(gap, kLayers, 0), Error);
}

}  // namespace
}  // namespace butterfly::runtime
