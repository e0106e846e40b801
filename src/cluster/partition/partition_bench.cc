// How long strategies take for 96 layers on 8, 16 and 100 nodes, and how close they are.
#include <benchmark/benchmark.h>

#include "cluster/partition/partitioner.h"
#include "cluster/testing/random_problem.h"

namespace butterfly::cluster {
namespace {

// 96 equal blocks of a gigabyte, an embedding and a head; nodes with room for some of them.
Problem big_problem(size_t nodes, Objective objective) {
  const testing::RandomProblemShape shape{.nodes = nodes,
                                          .pieces = 98,
                                          .equal_blocks = true,
                                          .memory_factor = nodes > 20 ? 4.0 : 2.0,
                                          .step_bytes = 1e9};
  return Problem(testing::random_pieces(shape, 1), testing::random_cluster(shape, 1),
                 {.objective = objective});
}

void strategy_bench(benchmark::State& state, const PartitionStrategy& strategy, Objective objective) {
  const Problem problem = big_problem(static_cast<size_t>(state.range(0)), objective);
  Result<Partition> partition = strategy.partition(problem);
  for (auto _ : state) benchmark::DoNotOptimize(partition = strategy.partition(problem));
  if (const auto planned = make_plan(problem, strategy)) {
    state.counters["gap_%"] = 100 * planned->gap;
    state.counters["stages"] = static_cast<double>(planned->plan.stages.size());
  } else {
    state.SetLabel(planned.status().text());
  }
}

const bool kRegistered = [] {
  for (const PartitionStrategy& strategy : partition_strategies()) {
    if (strategy.nodes == NodeChoice::kGiven) continue;
    for (const Objective objective : {Objective::kLatency, Objective::kThroughput})
      benchmark::RegisterBenchmark(
          (std::string(strategy.name) + (objective == Objective::kLatency ? "/latency" : "/throughput"))
              .c_str(),
          [&strategy, objective](benchmark::State& state) { strategy_bench(state, strategy, objective); })
          ->Arg(8)
          ->Arg(16)
          ->Arg(100)
          ->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
}  // namespace butterfly::cluster
