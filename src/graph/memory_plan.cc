#include "graph/memory_plan.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "base/checked.h"

namespace butterfly::graph {
namespace {

bool lasts(const Value& value) {
  return value.memory == MemoryClass::kWeights || value.memory == MemoryClass::kOptimizer ||
         value.memory == MemoryClass::kCommunication;
}

MemoryClass region_of(const Value& value) {
  const bool kept = lasts(value) || (value.memory == MemoryClass::kGradients && value.output);
  return kept ? value.memory : MemoryClass::kActivations;
}

// Steps [first, last] by value; step i is node i. Inputs are there from the start.
struct Lives {
  std::vector<uint32_t> first, last;
};

Lives lives_of(const Graph& graph) {
  const auto& values = graph.values();
  const auto& nodes = graph.nodes();
  Lives lives{std::vector<uint32_t>(values.size(), 0), std::vector<uint32_t>(values.size(), 0)};
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    for (const ValueId v : nodes[i].outputs) lives.first[v.index] = lives.last[v.index] = i;
    for (const ValueId v : nodes[i].inputs) lives.last[v.index] = i;
  }
  for (size_t v = 0; v < values.size(); ++v) {
    if (lasts(values[v])) lives.first[v] = 0;
    if (lasts(values[v]) || values[v].output) lives.last[v] = static_cast<uint32_t>(nodes.size());
  }
  return lives;
}

// The input whose memory value v may take over, or an invalid id.
ValueId taken_over(const Graph& graph, const Lives& lives, uint32_t v) {
  const auto& values = graph.values();
  const int32_t producer = values[v].producer;
  if (producer < 0 || values[v].slot >= 0) return {};
  const Node& node = graph.nodes()[static_cast<size_t>(producer)];
  const int in_place = node.op->in_place;
  if (in_place < 0 || node.outputs[0].index != v) return {};
  const ValueId from = node.inputs[static_cast<size_t>(in_place)];
  const Value& source = values[from.index];
  const bool dies_here =
      lives.last[from.index] == static_cast<uint32_t>(producer) && !source.output && source.slot < 0;
  const bool once = std::count(node.inputs.begin(), node.inputs.end(), from) == 1;
  const bool alike = source.memory == values[v].memory && source.type.bytes() == values[v].type.bytes();
  return dies_here && once && alike ? from : ValueId{};
}

std::vector<uint32_t> in_order(const Graph& graph) {
  std::vector<uint32_t> order;
  for (uint32_t v = 0; v < graph.values().size(); ++v)
    if (graph.values()[v].producer < 0) order.push_back(v);
  for (const Node& node : graph.nodes())
    for (const ValueId v : node.outputs) order.push_back(v.index);
  return order;
}

// Gives the buffers of one class their offsets, behind what is already in the arena.
void place_region(MemoryPlan& plan, MemoryClass memory) {
  std::vector<BufferLife> lives;
  std::vector<PlannedBuffer*> members;
  for (PlannedBuffer& buffer : plan.buffers) {
    if (buffer.region != memory) continue;
    lives.push_back(buffer.life);
    members.push_back(&buffer);
  }
  const Placement placement = place(lives, {.spare_bytes = 256 << 10});
  const std::string error = placement_error(lives, placement);
  BF_CHECK(error.empty()) << memory_class_name(memory) << ": " << error;
  MemoryRegion& region = plan.regions[static_cast<size_t>(memory)];
  region.offset = plan.arena_bytes;
  region.bytes = placement.bytes;
  region.live_bytes_max = live_bytes_max(lives);
  region.order = placement.order;
  for (size_t i = 0; i < members.size(); ++i) members[i]->offset = region.offset + placement.offsets[i];
  plan.arena_bytes += region.bytes;
  plan.live_bytes_max += region.live_bytes_max;
}

}  // namespace

MemoryPlan plan_memory(const Graph& graph, size_t threads) {
  const auto& values = graph.values();
  const auto& nodes = graph.nodes();
  const Lives lives = lives_of(graph);

  MemoryPlan plan;
  std::vector<uint32_t> buffer_of(values.size());
  std::set<int32_t> counted;  // slots: several values may share one
  // In the order in which they are made: a value may take over what was made before it.
  for (const uint32_t v : in_order(graph)) {
    const ValueId from = taken_over(graph, lives, v);
    if (from.valid()) {
      buffer_of[v] = buffer_of[from.index];
      BufferLife& life = plan.buffers[buffer_of[v]].life;
      life.last = std::max(life.last, lives.last[v]);
      continue;
    }
    buffer_of[v] = static_cast<uint32_t>(plan.buffers.size());
    const size_t bytes = values[v].type.bytes();
    const bool bound = values[v].slot >= 0;
    if (bound && counted.insert(values[v].slot).second)
      plan.regions[static_cast<size_t>(values[v].memory)].bound_bytes += bytes;
    const BufferLife life{bound ? 0 : bytes, lives.first[v], lives.last[v]};
    plan.buffers.push_back({life, 0, region_of(values[v]), static_cast<int32_t>(v), -1});
  }
  const size_t value_buffers = plan.buffers.size();
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    const size_t bytes =
        nodes[i].op->scratch == nullptr ? 0 : round_up(nodes[i].op->scratch(graph, nodes[i]), kBufferAlign);
    plan.scratch_bytes.push_back(bytes);
    const BufferLife life{bytes * threads, i, i};
    plan.buffers.push_back({life, 0, MemoryClass::kActivations, -1, static_cast<int32_t>(i)});
  }

  for (size_t c = 0; c < kMemoryClasses; ++c) place_region(plan, static_cast<MemoryClass>(c));
  for (const uint32_t buffer : buffer_of) plan.value_offsets.push_back(plan.buffers[buffer].offset);
  for (size_t i = 0; i < nodes.size(); ++i)
    plan.scratch_offsets.push_back(plan.buffers[value_buffers + i].offset);
  return plan;
}

}  // namespace butterfly::graph
