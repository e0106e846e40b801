// The two sweeps over time that do not depend on how a placement was found: LOAD, and the validator.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/checked.h"
#include "graph/placement.h"

namespace butterfly::graph {
namespace {

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
    const size_t bytes = round_up(buffers[edge.buffer].bytes, kBufferAlign);
    live = edge.end ? live - bytes : live + bytes;
    most = std::max(most, live);
  }
  return most;
}

std::string placement_error(std::span<const BufferLife> buffers, const Placement& placement) {
  if (placement.offsets.size() != buffers.size())
    return fmt::format("{} offsets for {} buffers", placement.offsets.size(), buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].first > buffers[i].last) return fmt::format("buffer {} ends before it begins", i);
    if (placement.offsets[i] % kBufferAlign != 0)
      return fmt::format("buffer {} at {} is not aligned", i, placement.offsets[i]);
    if (placement.bytes < buffers[i].bytes || placement.offsets[i] > placement.bytes - buffers[i].bytes)
      return fmt::format("buffer {} of {} bytes at {} does not fit the arena of {}", i, buffers[i].bytes,
                         placement.offsets[i], placement.bytes);
  }
  std::map<size_t, uint32_t> live;  // by offset; disjoint while no error was found
  for (const Edge& edge : sweep_edges(buffers)) {
    const size_t offset = placement.offsets[edge.buffer];
    if (buffers[edge.buffer].bytes == 0) continue;  // an empty buffer disturbs nobody
    if (edge.end) {
      live.erase(offset);
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
    live.emplace_hint(next, offset, edge.buffer);
  }
  return {};
}

}  // namespace butterfly::graph
