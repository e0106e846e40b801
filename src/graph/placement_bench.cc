// How near to LOAD placements come on known networks, and how long planning and checking take.
#include <benchmark/benchmark.h>

#include "base/check.h"
#include "graph/placement.h"
#include "graph/testing/network_lives.h"

namespace butterfly::graph {
namespace {

double ratio(const Placement& placement, std::span<const BufferLife> buffers) {
  return static_cast<double>(placement.bytes) / static_cast<double>(live_bytes_max(buffers));
}

void place_network(benchmark::State& state) {
  const auto networks = testing::network_lives();
  const auto& network = networks[static_cast<size_t>(state.range(0))];
  Placement placement;
  for (auto _ : state) {
    placement = place(network.buffers);
    BF_CHECK(placement_error(network.buffers, placement).empty());
  }
  double worst = 0;
  for (const std::string_view order : placement_orders())
    worst = std::max(worst, ratio(place_by(order, network.buffers), network.buffers));
  state.counters["buffers"] = static_cast<double>(network.buffers.size());
  state.counters["load_MB"] = static_cast<double>(live_bytes_max(network.buffers)) / 1e6;
  state.counters["over_load"] = ratio(placement, network.buffers);
  state.counters["worst_order"] = worst;
  state.SetLabel(network.name + ", by " + std::string(placement.order));
}
BENCHMARK(place_network)->DenseRange(0, 11)->Unit(benchmark::kMillisecond);

void place_many(benchmark::State& state) {
  const auto buffers = testing::many_lives(static_cast<size_t>(state.range(0)), 1);
  Placement placement;
  for (auto _ : state) {
    placement = place(buffers);
    BF_CHECK(placement_error(buffers, placement).empty());
  }
  state.counters["over_load"] = ratio(placement, buffers);
  state.SetLabel(std::string(placement.order));
}
BENCHMARK(place_many)->Arg(1000)->Arg(10000)->Unit(benchmark::kMillisecond);

void check_many(benchmark::State& state) {
  const auto buffers = testing::many_lives(static_cast<size_t>(state.range(0)), 1);
  const Placement placement = place_by("size", buffers);
  for (auto _ : state) BF_CHECK(placement_error(buffers, placement).empty());
}
BENCHMARK(check_many)->Arg(10000)->Arg(100000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace butterfly::graph
