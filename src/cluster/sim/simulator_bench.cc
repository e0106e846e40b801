// Events per second of the simulator.
#include "cluster/sim/simulator.h"

#include <benchmark/benchmark.h>

namespace butterfly::cluster {
namespace {

void BM_simulate(benchmark::State& state) {
  SimCluster cluster;
  for (int64_t i = 0; i < state.range(0); ++i) {
    SimPieces pieces;
    pieces.weight_s = 0.01 + 0.001 * static_cast<double>(i % 3);
    cluster.stages.push_back({"stage", {pieces}});
  }
  cluster.links.assign(cluster.stages.size() + 1,
                       {.latency_s = 2e-4, .bandwidth = 1.2e8, .decode_row_bytes = 16384});
  Workload w;
  w.clients = static_cast<size_t>(state.range(1));
  w.requests = 20 * w.clients;
  w.prompt_min = 16;
  w.prompt_max = 256;
  uint64_t events = 0;
  for (auto _ : state) events += simulate(cluster, w).events;
  state.counters["events"] = benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsRate);
}
BENCHMARK(BM_simulate)
    ->Args({1, 1})
    ->Args({4, 16})
    ->Args({16, 64})
    ->Args({100, 400})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace butterfly::cluster
