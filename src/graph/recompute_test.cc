// Forgetting and computing again: the same bits, less memory, a stated price; and plans of a real training
// graph.
#include "graph/recompute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "graph/executor.h"
#include "graph/testing/small_gpt.h"

namespace butterfly::graph {
namespace {

using testing::SmallGpt;

constexpr testing::GptSizes kGpt2 = {
    .batch = 4, .length = 64, .dim = 768, .heads = 12, .layers = 12, .vocabulary = 50257};

// Loss and all gradients of one run.
std::vector<float> results(const SmallGpt& gpt, const SmallGpt::Built& built, Graph graph, size_t threads) {
  Arena arena;
  ThreadPool pool(threads);
  Executor run(std::move(graph), arena, pool);
  const size_t rows = gpt.sizes().batch * gpt.sizes().length;
  for (size_t i = 0; i < rows; ++i) {
    reinterpret_cast<int32_t*>(run.input(built.tokens))[i] =
        static_cast<int32_t>(i * 7 % gpt.sizes().vocabulary);
    reinterpret_cast<int32_t*>(run.input(built.positions))[i] = static_cast<int32_t>(i % gpt.sizes().length);
    reinterpret_cast<int32_t*>(run.input(built.targets))[i] =
        static_cast<int32_t>(i * 5 % gpt.sizes().vocabulary);
  }
  *reinterpret_cast<float*>(run.input(built.factor)) = 1.0f / static_cast<float>(rows);
  run.run(nullptr);
  std::vector<float> all = {*run.output(built.loss)};
  for (const ValueId gradient : built.gradients) {
    const ValueType& type = run.graph().type(gradient);
    all.insert(all.end(), run.output(gradient), run.output(gradient) + type.rows() * type.cols());
  }
  return all;
}

TEST(Recompute, GivesTheSameBitsWhateverIsForgotten) {
  const SmallGpt gpt({.batch = 2, .length = 6, .dim = 16, .heads = 2, .layers = 3, .vocabulary = 23}, true);
  const SmallGpt::Built built = gpt.build(false);
  const std::vector<float> expected = results(gpt, built, built.graph, 2);
  ASSERT_NE(expected[0], 0.0f);
  const size_t nodes = built.forward_nodes;
  std::vector<std::vector<Segment>> choices = {
      {{0, nodes - 1}}, {{0, nodes / 2}, {nodes / 2, nodes - 1}}, {{3, 4}}};
  for (size_t length = 1; length < 8; ++length) {
    choices.emplace_back();
    for (size_t begin = length % 3; begin + length < nodes; begin += length)
      choices.back().push_back({begin, begin + length});
  }
  for (const auto& segments : choices) {
    const Graph changed = recompute(built.graph, nodes, segments);
    // A lone node whose results are read later is not worth forgetting; whole halves are.
    const bool large = segments[0].end - segments[0].begin > 4;
    EXPECT_GE(changed.nodes().size(), built.graph.nodes().size() + (large ? 1 : 0));
    EXPECT_EQ(results(gpt, built, changed, 2), expected) << segments.size() << " segments";
  }
}

TEST(Recompute, NothingForgottenIsTheSameGraph) {
  const SmallGpt gpt({.batch = 1, .length = 4, .dim = 8, .heads = 1, .layers = 1, .vocabulary = 11}, true);
  const SmallGpt::Built built = gpt.build(false);
  EXPECT_EQ(recompute(built.graph, built.forward_nodes, {}).nodes().size(), built.graph.nodes().size());
}

TEST(Recompute, HalvesTheMemoryOfGpt2ForAThirdMoreArithmetic) {
  const SmallGpt gpt(kGpt2, false);
  const SmallGpt::Built built = gpt.build(true);
  const RecomputeChoice choice = choose_recompute(built.graph, built.forward_nodes, {.threads = 2});
  EXPECT_FALSE(choice.segments.empty());
  EXPECT_LE(2 * choice.load_after, choice.load_before);
  EXPECT_LE(static_cast<double>(choice.flops_after), 1.35 * static_cast<double>(choice.flops_before));
  RecordProperty("load_before_MB", static_cast<int>(choice.load_before / 1000000));
  RecordProperty("load_after_MB", static_cast<int>(choice.load_after / 1000000));
  RecordProperty("flops_percent", static_cast<int>(100 * static_cast<double>(choice.flops_after) /
                                                   static_cast<double>(choice.flops_before)));
  const Graph changed = recompute(built.graph, built.forward_nodes, choice.segments);
  EXPECT_EQ(plan_memory(changed, 2).live_bytes_max, choice.load_after);
}

TEST(Recompute, PlansOfGpt2StayWithinOnePercentOfLoad) {
  const SmallGpt gpt(kGpt2, false);
  for (const bool bound : {true, false}) {
    const SmallGpt::Built built = gpt.build(bound);
    const MemoryPlan plan = plan_memory(built.graph, 2);
    EXPECT_LE(static_cast<double>(plan.arena_bytes), 1.01 * static_cast<double>(plan.live_bytes_max));
    const RecomputeChoice choice = choose_recompute(built.graph, built.forward_nodes, {.threads = 2});
    const MemoryPlan again = plan_memory(recompute(built.graph, built.forward_nodes, choice.segments), 2);
    EXPECT_LE(static_cast<double>(again.arena_bytes), 1.01 * static_cast<double>(again.live_bytes_max));
  }
}

}  // namespace
}  // namespace butterfly::graph
