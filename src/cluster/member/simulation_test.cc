// Clusters with bad luck: whatever happens, one plan of each job holds at a time, no node has more
// than its memory, and a cluster that is left in peace serves.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/units.h"
#include "cluster/testing/member_simulation.h"

namespace butterfly::cluster {
namespace {

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

testing::SimulationOptions options_of(uint64_t seed) {
  // Most problems need few nodes; some need many.
  if (seed % 50 == 0) return {.nodes_min = 21, .nodes_max = 100};
  if (seed % 5 == 0) return {.nodes_min = 6, .nodes_max = 20};
  return {};
}

// BUTTERFLY_SEED plays one seed and tells its story; BUTTERFLY_SEEDS plays so many.
void play(uint64_t seeds) {
  const bool one = std::getenv("BUTTERFLY_SEED") != nullptr;
  const uint64_t first = from_environment("BUTTERFLY_SEED", 1);
  const uint64_t count = one ? 1 : from_environment("BUTTERFLY_SEEDS", seeds);
  std::map<std::string, uint64_t> faults;
  uint64_t jobs = 0, served = 0, could = 0, steps = 0, epochs = 0, halts = 0, dropped = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const testing::SimulationResult result = testing::MemberSimulation(seed, options_of(seed)).run();
    if (one) fmt::print("{}", result.story);
    ASSERT_EQ(result.problem, "") << "seed " << seed << "; to play it again:\n  BUTTERFLY_SEED=" << seed
                                  << " build/release/bin/cluster_test --gtest_filter=MemberSimulation.*\n"
                                  << result.story;
    for (const auto& [kind, times] : result.faults) faults[kind] += times;
    jobs += result.jobs;
    served += result.served;
    could += result.could_serve;
    steps += result.steps;
    epochs += result.epochs;
    halts += result.halts;
    dropped += result.dropped;
  }
  std::string words;
  for (const auto& [kind, times] : faults) words += fmt::format(", {} {}", times, kind);
  fmt::print(
      "{} clusters, {} jobs, {} served at the end of {} that could be; {} plans served, {} halted, {} steps, "
      "{} "
      "messages dropped{}\n",
      count, jobs, served, could, epochs, halts, steps, dropped, words);
  if (one) return;
  // The story must not be a dull one.
  EXPECT_GT(jobs, count * 13 / 10) << "one or two each";
  EXPECT_GE(served, jobs * 8 / 10);
  EXPECT_GT(halts, count / 2);
  for (const char* kind : {"killed", "stopped", "stuck", "cut off", "link lost", "left", "removed",
                           "coordinator restarted", "coordinator stopped", "reordered", "duplicated",
                           "pair cut", "unreachable", "job ended", "disk full", "slow fetch", "lies"})
    EXPECT_GT(faults[kind], count / 20) << kind;
}

TEST(MemberSimulation, TwoHundredSeedsKeepTheRules) { play(200); }

// On a LAN, with the limits that a cluster has by itself.
TEST(MemberSimulation, HundredNodesServeSoonAndRecoverSoon) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const auto result =
        testing::MemberSimulation(seed, {.nodes_min = 100, .nodes_max = 100, .faults = false}).run();
    ASSERT_EQ(result.problem, "") << "seed " << seed << "\n" << result.story;
    fmt::print("100 nodes: the last plan is served {} after the last join, a step ends {} after a kill\n",
               format_duration(result.to_serve), format_duration(result.to_recover));
    EXPECT_LE(result.to_serve, std::chrono::seconds(30));
    EXPECT_LE(result.to_recover, std::chrono::seconds(5));
  }
}

TEST(MemberSimulation, SameSeedSameStory) {
  const auto a = testing::MemberSimulation(42).run(), b = testing::MemberSimulation(42).run();
  EXPECT_EQ(a.story, b.story);
  EXPECT_EQ(a.steps, b.steps);
  EXPECT_NE(a.story, testing::MemberSimulation(43).run().story);
}

}  // namespace
}  // namespace butterfly::cluster
