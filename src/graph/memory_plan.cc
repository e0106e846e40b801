#include "graph/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/check.h"
#include "base/checked.h"

namespace butterfly::graph {
namespace {

constexpr size_t kAlign = 64;

// (step, buffer) of every start and end, ends after starts of the same step.
struct Edge {
  uint32_t step;
  bool end;
  uint32_t buffer;
};
std::vector<Edge> sweep_edges(std::span<const BufferLife> buffers) {
  std::vector<Edge> edges;
  edges.reserve(2 * buffers.size());
  for (uint32_t i = 0; i < buffers.size(); ++i) {
    edges.push_back({buffers[i].first, false, i});
    edges.push_back({buffers[i].last, true, i});
  }
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) {
    return a.step != b.step ? a.step < b.step : a.end != b.end ? !a.end : a.buffer < b.buffer;
  });
  return edges;
}

}  // namespace

size_t live_bytes_max(std::span<const BufferLife> buffers) {
  size_t live = 0, most = 0;
  for (const Edge& edge : sweep_edges(buffers)) {
    const size_t bytes = round_up(buffers[edge.buffer].bytes, kAlign);
    live = edge.end ? live - bytes : live + bytes;
    most = std::max(most, live);
  }
  return most;
}

Placement place(std::span<const BufferLife> buffers) {
  std::vector<uint32_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    if (buffers[a].bytes != buffers[b].bytes) return buffers[a].bytes > buffers[b].bytes;
    return buffers[a].last - buffers[a].first > buffers[b].last - buffers[b].first;
  });

  Placement placement{.offsets = std::vector<size_t>(buffers.size(), 0)};
  std::vector<uint32_t> placed;  // by offset
  for (uint32_t i : order) {
    const size_t bytes = round_up(buffers[i].bytes, kAlign);
    size_t at = 0;
    for (uint32_t other : placed) {
      if (buffers[other].first > buffers[i].last || buffers[other].last < buffers[i].first) continue;
      if (placement.offsets[other] >= at + bytes) break;
      at = std::max(at, placement.offsets[other] + round_up(buffers[other].bytes, kAlign));
    }
    placement.offsets[i] = at;
    placement.bytes = std::max(placement.bytes, at + bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), at,
                                   [&](size_t offset, uint32_t b) { return offset < placement.offsets[b]; }),
                  i);
  }
  return placement;
}

std::string placement_error(std::span<const BufferLife> buffers, const Placement& placement) {
  if (placement.offsets.size() != buffers.size())
    return fmt::format("{} offsets for {} buffers", placement.offsets.size(), buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].first > buffers[i].last) return fmt::format("buffer {} ends before it begins", i);
    if (placement.offsets[i] % kAlign != 0)
      return fmt::format("buffer {} at {} is not aligned", i, placement.offsets[i]);
    if (placement.bytes < buffers[i].bytes || placement.offsets[i] > placement.bytes - buffers[i].bytes)
      return fmt::format("buffer {} ends at {}, the arena has {}", i, placement.offsets[i] + buffers[i].bytes,
                         placement.bytes);
  }
  std::multimap<size_t, uint32_t> live;  // by offset; disjoint while no error was found
  for (const Edge& edge : sweep_edges(buffers)) {
    const size_t offset = placement.offsets[edge.buffer];
    if (buffers[edge.buffer].bytes == 0) continue;
    if (edge.end) {
      auto it = live.lower_bound(offset);
      while (it->second != edge.buffer) ++it;
      live.erase(it);
      continue;
    }
    const auto next = live.lower_bound(offset);
    const auto overlap = [&](uint32_t other) {
      return fmt::format("buffers {} and {} overlap at step {}", edge.buffer, other, edge.step);
    };
    if (next != live.end() && next->first < offset + buffers[edge.buffer].bytes) return overlap(next->second);
    if (next != live.begin()) {
      const auto before = std::prev(next);
      if (before->first + buffers[before->second].bytes > offset) return overlap(before->second);
    }
    live.emplace(offset, edge.buffer);
  }
  return {};
}

MemoryPlan plan_memory(const Graph& graph, size_t threads) {
  const auto& values = graph.values();
  const auto& nodes = graph.nodes();
  const auto end = static_cast<uint32_t>(nodes.size());

  // Lifetimes in steps; step i is node i. Inputs are there from the start.
  std::vector<uint32_t> first(values.size(), 0), last(values.size(), 0);
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    for (ValueId v : nodes[i].outputs) first[v.index] = last[v.index] = i;
    for (ValueId v : nodes[i].inputs) last[v.index] = i;
  }
  for (size_t v = 0; v < values.size(); ++v)
    if (values[v].output) last[v] = end;

  // Values that share memory form one buffer: an op in place takes over its input's.
  std::vector<uint32_t> buffer_of(values.size());
  std::vector<BufferLife> buffers;
  for (uint32_t v = 0; v < values.size(); ++v) {
    const int32_t producer = values[v].producer;
    if (producer >= 0) {
      const Node& node = nodes[static_cast<size_t>(producer)];
      const int in_place = node.op->in_place;
      if (in_place >= 0 && node.outputs[0].index == v && values[v].slot < 0) {
        const ValueId from = node.inputs[static_cast<size_t>(in_place)];
        const bool dies_here =
            last[from.index] == static_cast<uint32_t>(producer) && !values[from.index].output;
        const bool once = std::count(node.inputs.begin(), node.inputs.end(), from) == 1;
        if (dies_here && once && values[from.index].type.bytes() == values[v].type.bytes()) {
          buffer_of[v] = buffer_of[from.index];
          buffers[buffer_of[v]].last = std::max(buffers[buffer_of[v]].last, last[v]);
          continue;
        }
      }
    }
    buffer_of[v] = static_cast<uint32_t>(buffers.size());
    const bool bound = values[v].slot >= 0;  // lives elsewhere
    buffers.push_back({bound ? 0 : values[v].type.bytes(), first[v], last[v]});
  }

  MemoryPlan plan;
  const size_t value_buffers = buffers.size();
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    const size_t bytes =
        nodes[i].op->scratch == nullptr ? 0 : round_up(nodes[i].op->scratch(graph, nodes[i]), kAlign);
    plan.scratch_bytes.push_back(bytes);
    buffers.push_back({bytes * threads, i, i});
  }

  const Placement placement = place(buffers);
  const std::string error = placement_error(buffers, placement);
  BF_CHECK(error.empty()) << error;
  for (uint32_t v = 0; v < values.size(); ++v) plan.value_offsets.push_back(placement.offsets[buffer_of[v]]);
  plan.scratch_offsets.assign(placement.offsets.begin() + static_cast<ptrdiff_t>(value_buffers),
                              placement.offsets.end());
  plan.arena_bytes = placement.bytes;
  plan.live_bytes_max = live_bytes_max(buffers);
  return plan;
}

}  // namespace butterfly::graph
