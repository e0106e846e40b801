#include "runtime/planning/plan_placement.h"

#include <gtest/gtest.h>

#include "cluster/testing/member_samples.h"
#include "runtime/planning/memory_forecast.h"
#include "runtime/planning/model_shape.h"
#include "runtime/testing/models.h"

namespace butterfly::runtime {
namespace {

using cluster::testing::capabilities;
using cluster::testing::node_id;

StageSettings small_settings() {
  return {.context = 256,
          .positions = 1024,
          .sequences = 4,
          .rows_max = 64,
          .kv_type = DType::kF16,
          .wire = "f32"};
}

cluster::PlanQuestion question(size_t nodes, uint64_t ram_bytes) {
  cluster::PlanQuestion asked;
  asked.epoch = 1;
  asked.coordinator = node_id(1);
  for (size_t i = 0; i < nodes; ++i)
    asked.nodes.push_back({node_id(static_cast<int>(i) + 1), capabilities(ram_bytes), ram_bytes});
  return asked;
}

struct PlanPlacementTest : ::testing::Test {
  model::ModelFile file = shape_file(*find_shape("llama-8b"), DType::kQ4_0, DType::kQ8_0);
  PlacementOptions options{.settings = {.context = 2048, .positions = 4096, .sequences = 2, .rows_max = 128}};

  void expect_usable(const cluster::Placement& placement, const cluster::PlanQuestion& asked) {
    EXPECT_EQ(cluster::why_not_whole(placement), "");
    EXPECT_EQ(placement.pieces, 34u);
    EXPECT_EQ(placement.stages.back().first(), asked.coordinator) << "the head is where the engine is";
    for (const auto& stage : placement.stages) EXPECT_GE(stage.stall_after, std::chrono::seconds(3));
  }
};

TEST_F(PlanPlacementTest, EveryStrategyEndsAtTheCoordinator) {
  for (const char* strategy : {"optimal", "balanced", "uniform", "annealing"})
    for (const size_t nodes : {1, 3}) {
      const auto asked = question(nodes, uint64_t{16} << 30);
      options.strategy = &cluster::find_strategy(strategy);
      const auto placement = plan_placement(file, asked, options);
      ASSERT_TRUE(placement.ok()) << strategy << " " << nodes << ": " << placement.status().text();
      expect_usable(*placement, asked);
    }
}

TEST_F(PlanPlacementTest, AModelTooLargeForOneNodeIsSplit) {
  const auto asked = question(3, uint64_t{2} << 30);  // it needs about 5 GiB
  for (const char* strategy : {"optimal", "balanced"}) {
    options.strategy = &cluster::find_strategy(strategy);
    const auto placement = plan_placement(file, asked, options);
    ASSERT_TRUE(placement.ok()) << strategy << ": " << placement.status().text();
    expect_usable(*placement, asked);
    EXPECT_EQ(placement->stages.size(), 3u);
    for (const auto& stage : placement->stages)
      EXPECT_LE(stage.members.front().memory_bytes, uint64_t{2} << 30);
  }
}

TEST_F(PlanPlacementTest, AQuotaHalvesWhatIsSustainedAndLeavesAFirstBurst) {
  options.strategy = &cluster::find_strategy("uniform");
  auto asked = question(2, uint64_t{16} << 30);
  const auto stage_s = [&](size_t stage) {
    const auto placement = plan_placement(file, asked, options);
    EXPECT_TRUE(placement.ok()) << placement.status().text();
    return placement->stages.at(stage).members.front().predicted_s;
  };
  const double whole = stage_s(0);
  auto& first = asked.nodes[1].capabilities;  // the coordinator's own is the last stage
  first.cpu_share = 0.5;
  EXPECT_NEAR(stage_s(0), 2 * whole, 1e-9);
  first.burst_s = whole / 10;
  EXPECT_NEAR(stage_s(0), 1.9 * whole, 1e-9) << "a tenth at full speed, the rest at half";
  first.burst_s = 10 * whole;
  EXPECT_NEAR(stage_s(0), whole, 1e-9) << "never faster than without a quota";
  // Alone it never rests.
  asked.nodes = {asked.nodes[0]};
  asked.nodes[0].capabilities.cpu_share = 0.5;
  const double sustained = stage_s(0);
  asked.nodes[0].capabilities.burst_s = 1;
  EXPECT_NEAR(stage_s(0), sustained, 1e-9);
}

// One stage of the coordinator and another node, in eighths; and where links are slow, whole layers.
TEST_F(PlanPlacementTest, NodesMayShareEveryLayer) {
  auto asked = question(3, uint64_t{16} << 30);
  options.groups = parse_groups("--groups", "2");
  const auto two = plan_placement(file, asked, options);
  ASSERT_TRUE(two.ok()) << two.status().text();
  expect_usable(*two, asked);
  ASSERT_EQ(two->stages.size(), 1u);
  ASSERT_EQ(two->stages[0].members.size(), 2u);
  EXPECT_EQ(two->stages[0].members[0].share.of(cluster::ShareKind::kColumns), (cluster::ShareRange{0, 4, 8}));
  EXPECT_NE(two->words.find("every layer is shared: node-1 4/8, "), std::string::npos) << two->words;
  options.groups = parse_groups("--groups", "auto");
  options.unknown_link = {.latency_s = 20e-6, .bandwidth = 3e9};
  const auto near = plan_placement(file, asked, options);
  ASSERT_TRUE(near.ok()) << near.status().text();
  EXPECT_EQ(near->stages[0].members.size(), 3u);
  asked.current = *near;
  EXPECT_EQ(plan_placement(file, asked, options)->current_tokens_per_s, near->tokens_per_s);
  options.unknown_link = {.latency_s = 20e-3, .bandwidth = 1e6};
  const auto far = plan_placement(file, asked, options);
  ASSERT_TRUE(far.ok()) << far.status().text();
  for (const auto& stage : far->stages) EXPECT_EQ(stage.members.size(), 1u);
}

// Groups that form a chain, where one of them has too little memory: the coordinator's is the last one, and
// it is the first of its members.
TEST_F(PlanPlacementTest, GroupsFormAChain) {
  const auto sizes = [](const cluster::Placement& placement) {
    std::vector<size_t> out;
    for (const auto& stage : placement.stages) out.push_back(stage.members.size());
    return out;
  };
  options.groups = parse_groups("--groups", "2");
  struct Case {
    size_t nodes;
    double gib;  // it needs about 5
    std::vector<size_t> sizes;
  };
  for (const Case& c : {Case{4, 2, {2, 2}}, Case{3, 2.6, {1, 2}}, Case{5, 1.35, {1, 2, 2}}}) {
    const auto asked = question(c.nodes, static_cast<uint64_t>(c.gib * (uint64_t{1} << 30)));
    const auto placement = plan_placement(file, asked, options);
    ASSERT_TRUE(placement.ok()) << c.nodes << ": " << placement.status().text();
    expect_usable(*placement, asked);
    auto found = sizes(*placement);
    std::ranges::sort(found);
    EXPECT_EQ(found, c.sizes);
    for (const auto& stage : placement->stages)
      for (const auto& member : stage.members) EXPECT_LE(member.memory_bytes, asked.nodes[0].ram_free_bytes);
    EXPECT_NE(placement->words.find("are shared: "), std::string::npos) << placement->words;
    EXPECT_NE(placement->words.find("with whole layers "), std::string::npos) << placement->words;
    // What is served is predicted anew, and is the same.
    auto again = asked;
    again.current = *placement;
    const auto same = plan_placement(file, again, options);
    ASSERT_TRUE(same.ok());
    EXPECT_TRUE(same->same_work(*placement));
    EXPECT_EQ(same->current_tokens_per_s, placement->tokens_per_s);
    EXPECT_FALSE(same->asked_for);
  }
}

TEST_F(PlanPlacementTest, StrategiesThatLeaveNobodyOutMakeGroupsOfAll) {
  options.groups = parse_groups("--groups", "2");
  for (const char* strategy : {"balanced", "uniform"})
    for (const size_t nodes : {2, 3, 4, 5}) {
      options.strategy = &cluster::find_strategy(strategy);
      const auto asked = question(nodes, uint64_t{16} << 30);
      const auto placement = plan_placement(file, asked, options);
      ASSERT_TRUE(placement.ok()) << strategy << nodes << ": " << placement.status().text();
      expect_usable(*placement, asked);
      EXPECT_EQ(placement->nodes().size(), nodes) << strategy;
      EXPECT_EQ(placement->stages.size(), (nodes + 1) / 2) << strategy;
    }
}

// A number is asked for: it replaces what is served, which would be faster.
TEST_F(PlanPlacementTest, GroupsThatAreAskedForReplaceWhatIsServed) {
  auto asked = question(2, uint64_t{16} << 30);
  options.unknown_link = {.latency_s = 20e-3, .bandwidth = 1e6};
  asked.current = *plan_placement(file, asked, options);
  options.groups = parse_groups("--groups", "2");
  const auto placement = plan_placement(file, asked, options);
  ASSERT_TRUE(placement.ok()) << placement.status().text();
  EXPECT_EQ(placement->stages[0].members.size(), 2u);
  EXPECT_LT(placement->tokens_per_s, placement->current_tokens_per_s);
  EXPECT_TRUE(placement->asked_for);
}

TEST_F(PlanPlacementTest, GroupsGoAroundPairsThatCannotReachEachOther) {
  options.groups = parse_groups("--groups", "3");
  auto asked = question(3, uint64_t{16} << 30);
  asked.broken = {{node_id(2).key, node_id(3).key}};
  const auto two = plan_placement(file, asked, options);
  ASSERT_TRUE(two.ok()) << two.status().text();
  for (const auto& stage : two->stages)
    EXPECT_FALSE(stage.find(node_id(2)) != nullptr && stage.find(node_id(3)) != nullptr);
  asked.broken = {{node_id(2).key, node_id(1).key}, {node_id(1).key, node_id(3).key}};
  const auto none = plan_placement(file, asked, options);
  ASSERT_TRUE(none.ok()) << none.status().text();
  EXPECT_EQ(none->stages.back().members.size(), 1u);
}

// More nodes than a search of all subsets takes.
TEST_F(PlanPlacementTest, GroupsOfALargeClusterEndAtTheCoordinator) {
  options.groups = parse_groups("--groups", "2");
  const auto asked = question(20, uint64_t{700} << 20);
  const auto placement = plan_placement(file, asked, options);
  ASSERT_TRUE(placement.ok()) << placement.status().text();
  expect_usable(*placement, asked);
  EXPECT_EQ(placement->stages.back().members.size(), 2u);
}

TEST_F(PlanPlacementTest, TooLittleMemoryIsSaidInFigures) {
  const auto placement = plan_placement(file, question(2, uint64_t{1} << 30), options);
  ASSERT_FALSE(placement.ok());
  EXPECT_EQ(placement.status().code(), Errc::kOutOfMemory);
  EXPECT_NE(placement.status().text().find("2.00 GiB free together"), std::string::npos)
      << placement.status().text();
}

// Of all strategies: where memory is short none is to blame, and nodes have names.
TEST_F(PlanPlacementTest, MemoryIsNamedAndNotTheStrategy) {
  for (const char* strategy : {"optimal", "balanced", "uniform", "annealing"}) {
    options.strategy = &cluster::find_strategy(strategy);
    const std::string text = plan_placement(file, question(2, uint64_t{1} << 30), options).status().text();
    EXPECT_NE(text.find("too little memory"), std::string::npos) << text;
    EXPECT_EQ(text.find(strategy), std::string::npos) << text;
  }
  auto uneven = question(2, uint64_t{9} << 30);
  uneven.nodes[1].ram_free_bytes = uint64_t{1} << 30;
  options.strategy = &cluster::find_strategy("uniform");
  const std::string text = plan_placement(file, uneven, options).status().text();
  EXPECT_NE(text.find("enough together, but not as it is split: uniform: node-2"), std::string::npos) << text;
}

TEST_F(PlanPlacementTest, WithoutTheCoordinatorsNodeThereIsNoPlan) {
  auto asked = question(3, uint64_t{16} << 30);
  asked.coordinator = node_id(9);
  EXPECT_EQ(plan_placement(file, asked, options).status().code(), Errc::kNotFound);
}

TEST_F(PlanPlacementTest, BrokenPairsAreAvoided) {
  auto asked = question(3, uint64_t{2} << 30);
  const auto first = plan_placement(file, asked, options);
  ASSERT_TRUE(first.ok()) << first.status().text();
  ASSERT_EQ(first->stages.size(), 3u);
  asked.broken.emplace_back(first->stages[0].first().key, first->stages[1].first().key);
  const auto second = plan_placement(file, asked, options);
  ASSERT_TRUE(second.ok()) << second.status().text();
  expect_usable(*second, asked);
  EXPECT_EQ(second->stages[0].first(), first->stages[1].first()) << "the other way round";
}

// A laptop that nobody can reach, with strategies that give every node a part.
TEST_F(PlanPlacementTest, WhoCannotBeReachedIsLeftOut) {
  auto asked = question(3, uint64_t{16} << 30);
  asked.broken = {{node_id(1).key, node_id(2).key}, {node_id(3).key, node_id(2).key}};
  for (const char* strategy : {"optimal", "balanced", "uniform", "annealing"}) {
    options.strategy = &cluster::find_strategy(strategy);
    const auto placement = plan_placement(file, asked, options);
    ASSERT_TRUE(placement.ok()) << strategy << ": " << placement.status().text();
    expect_usable(*placement, asked);
    EXPECT_EQ(placement->find(node_id(2)), nullptr) << strategy;
  }
  for (auto& node : asked.nodes) node.ram_free_bytes = uint64_t{2} << 30;
  options.strategy = &cluster::find_strategy("optimal");
  const auto none = plan_placement(file, asked, options);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.status().text().find("cannot reach node-2"), std::string::npos) << none.status().text();
}

TEST_F(PlanPlacementTest, WhatIsServedIsPredictedAnew) {
  options.strategy = &cluster::find_strategy("uniform");
  auto asked = question(2, uint64_t{16} << 30);
  const auto before = plan_placement(file, asked, options);
  ASSERT_TRUE(before.ok());
  asked.current = *before;
  const auto same = plan_placement(file, asked, options);
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(same->current_tokens_per_s, before->tokens_per_s);
  // The link turns out to be slow.
  asked.links[{node_id(1).key, node_id(2).key}] = {.rtt_s = 0.5, .bandwidth = 1e5};
  const auto after = plan_placement(file, asked, options);
  ASSERT_TRUE(after.ok());
  EXPECT_LT(after->current_tokens_per_s, before->tokens_per_s / 2);
  // Many streams are another figure than one.
  options.objective = cluster::Objective::kThroughput;
  const auto many = plan_placement(file, asked, options);
  ASSERT_TRUE(many.ok());
  EXPECT_GT(many->tokens_per_s, after->tokens_per_s);
}

TEST(MemoryForecastTest, WeightsAreWhatLoadingTakes) {
  testing::RandomModel random(DType::kQ4_0, 1);
  const LoadedModel& whole = *random.loaded().model;
  const StageSettings settings = small_settings();
  for (const size_t cut : {0, 1, 2, 3}) {
    Compute compute(1);
    LoadOptions load;
    load.with_tokenizer = false;
    load.context = settings.context;
    load.range = model::range_of_pieces(cut, whole.config.layers + 2, whole.config.layers);
    const auto part = load_model(random.path(), compute.take().pool(), load);
    const MemoryForecast forecast = forecast_memory(whole.file, *load.range, settings, 1);
    const auto weights = static_cast<double>(part->resident_bytes);
    EXPECT_NEAR(static_cast<double>(forecast.weight_bytes), weights, 0.02 * weights) << cut;
    EXPECT_GT(forecast.activation_bytes, 0u);
    const PagedLayers layers(*part, compute, settings.chain_options().cache);
    EXPECT_EQ(forecast.cache_bytes, layers.cache_bytes()) << cut;
  }
}

TEST(MemoryForecastTest, RefusalsHaveFigures) {
  const MemoryForecast forecast{.weight_bytes = 3 << 20, .cache_bytes = 1 << 20, .activation_bytes = 1 << 20};
  EXPECT_TRUE(check_fits(forecast, 5 << 20, "a part").ok());
  const Status refused = check_fits(forecast, (5 << 20) - 1, "a part");
  EXPECT_EQ(refused.code(), Errc::kOutOfMemory);
  EXPECT_NE(refused.text().find("5.00 MiB"), std::string::npos) << refused.text();
  EXPECT_NE(refused.text().find("weights 3.00 MiB"), std::string::npos) << refused.text();
}

// ---- Nodes that became slow ----

// Pieces that compute next to nothing would cost nothing on a slow node: what comes to it waits there all the
// same.
TEST_F(PlanPlacementTest, WhereMessagesWaitNothingIsPlannedThatFitsElsewhere) {
  cluster::PlanQuestion asked = question(3, uint64_t{4} << 30);
  asked.nodes[1].slowness = 50;
  asked.nodes[1].held_up_s = 0.04;
  const auto placed = plan_placement(file, asked, options);
  ASSERT_TRUE(placed) << placed.status().text();
  EXPECT_EQ(placed->stages.size(), 2u);
  for (const auto& stage : placed->stages) EXPECT_NE(stage.first(), asked.nodes[1].id);
}

struct BalancePlacementTest : PlanPlacementTest {
  BalancePlacementTest() {
    asked = question(3, uint64_t{3} << 30);  // it needs about 5 GiB: at least two have a part
    asked.current = *plan_placement(file, asked, options);
  }
  size_t layers_on(const cluster::Placement& placement, int node) const {
    for (const auto& stage : placement.stages)
      if (stage.first() == node_id(node)) return stage.end - stage.begin;
    return 0;
  }
  // So many looks, two seconds apart; the last answer.
  BalanceAnswer look(size_t times, double slowness_of_two) {
    BalanceAnswer answer;
    for (size_t i = 0; i < times && !answer.move; ++i) {
      std::map<std::string, double> slowness;
      for (const auto& stage : asked.current->stages)
        slowness[stage.first().key] = stage.first() == node_id(2) ? slowness_of_two : 1;
      answer = balance_placement(file, asked, slowness, now_s += 2, options, balance);
    }
    return answer;
  }
  cluster::PlanQuestion asked;
  PlacementBalance balance;
  double now_s = 1000;
};

TEST_F(BalancePlacementTest, MovesLayersAwayFromANodeThatBecameSlow) {
  const size_t before = layers_on(*asked.current, 2);
  ASSERT_GT(before, 0u);
  EXPECT_FALSE(look(20, 1).move) << "all is as planned";
  const BalanceAnswer answer = look(10, 10);
  ASSERT_TRUE(answer.move) << answer.reason;
  EXPECT_NEAR(answer.slowness.at(node_id(2).key), 10, 0.5);
  for (auto& node : asked.nodes) node.slowness = answer.slowness.at(node.id.key);
  const auto placement = plan_placement(file, asked, options);
  ASSERT_TRUE(placement.ok());
  EXPECT_LT(layers_on(*placement, 2), before);
  EXPECT_GT(placement->tokens_per_s, 1.1 * placement->current_tokens_per_s) << "so the job takes it";
  // Once moved, all is as predicted.
  asked.current = *placement;
  EXPECT_FALSE(look(20, 10).move);
}

TEST_F(BalancePlacementTest, AShortHiccupMovesNothing) {
  EXPECT_FALSE(look(6, 1).move);
  EXPECT_FALSE(look(2, 10).move);
  EXPECT_FALSE(look(20, 1).move);
}

TEST_F(BalancePlacementTest, ASplitThatWasAskedForStays) {
  options.strategy = &cluster::find_strategy("uniform");
  EXPECT_FALSE(look(20, 10).move);
}

TEST_F(BalancePlacementTest, OtherNodesBeginAnew) {
  EXPECT_FALSE(look(1, 10).move) << "once is not enough";
  asked.nodes.push_back({node_id(9), capabilities(uint64_t{3} << 30), uint64_t{3} << 30});
  EXPECT_FALSE(look(1, 10).move) << "what was seen before was about another cluster";
  EXPECT_EQ(balance.keys.size(), 4u);
}

}  // namespace
}  // namespace butterfly::runtime
