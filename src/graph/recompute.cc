#include "graph/recompute.h"

#include <algorithm>

#include "base/check.h"
#include "graph/memory_plan.h"

namespace butterfly::graph {
namespace {

constexpr size_t kNone = SIZE_MAX;

// By value: the last forward node that reads it and the first backward one.
struct Readers {
  std::vector<size_t> last_forward, first_backward;
};

Readers readers_of(const Graph& graph, size_t forward_nodes) {
  Readers readers{std::vector<size_t>(graph.values().size(), kNone),
                  std::vector<size_t>(graph.values().size(), kNone)};
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    for (const ValueId v : graph.nodes()[i].inputs) {
      if (i < forward_nodes) readers.last_forward[v.index] = i;
      if (i >= forward_nodes && readers.first_backward[v.index] == kNone) readers.first_backward[v.index] = i;
    }
  }
  return readers;
}

// What is computed again for one segment.
struct Again {
  std::vector<size_t> nodes;  // in order
  std::vector<bool>
      forgotten;          // by value: outputs of these nodes that the backward pass takes from the copies
  size_t before = kNone;  // the backward node in front of which the copies run
};

Again plan_segment(const Graph& graph, const Readers& readers, size_t forward_nodes, const Segment& segment) {
  const auto forgettable = [&](ValueId v) {
    const Value& value = graph.values()[v.index];
    const bool read_later =
        readers.last_forward[v.index] != kNone && readers.last_forward[v.index] >= segment.end;
    return !read_later && !value.output && value.slot < 0 && value.memory == MemoryClass::kActivations;
  };
  Again again;
  again.forgotten.assign(graph.values().size(), false);
  // From the back: a node is needed if the backward pass, or a needed node behind it, reads what is
  // forgotten.
  std::vector<bool> needed(graph.values().size(), false);
  for (size_t i = segment.end; i-- > segment.begin;) {
    const Node& node = graph.nodes()[i];
    bool run = false;
    for (const ValueId v : node.outputs) {
      const size_t reader = readers.first_backward[v.index];
      if (!forgettable(v) || (reader == kNone && !needed[v.index])) continue;
      run = true;
      if (reader != kNone) again.before = std::min(again.before, reader);
    }
    if (!run) continue;
    again.nodes.push_back(i);
    for (const ValueId v : node.outputs) again.forgotten[v.index] = forgettable(v);
    for (const ValueId v : node.inputs) needed[v.index] = true;
  }
  std::reverse(again.nodes.begin(), again.nodes.end());
  BF_CHECK(again.nodes.empty() || again.before >= forward_nodes) << "copies without a reader";
  return again;
}

// Bytes made before node `at` that forward nodes from there on read. Inputs of the graph do not count: they
// are there anyway.
std::vector<size_t> crossing_bytes(const Graph& graph, const Readers& readers, size_t forward_nodes) {
  std::vector<size_t> change(forward_nodes + 2, 0);  // unsigned wrap-around is undone by the sums
  for (size_t v = 0; v < graph.values().size(); ++v) {
    const int32_t producer = graph.values()[v].producer;
    if (producer < 0 || static_cast<size_t>(producer) >= forward_nodes || readers.last_forward[v] == kNone)
      continue;
    change[static_cast<size_t>(producer) + 1] += graph.values()[v].type.bytes();
    change[readers.last_forward[v] + 1] -= graph.values()[v].type.bytes();
  }
  std::vector<size_t> bytes;
  size_t now = 0;
  for (size_t i = 0; i < forward_nodes; ++i) bytes.push_back(now += change[i]);
  return bytes;
}

// Where a cut keeps least: places with no more crossing bytes than a tenth above the usual smallest. The
// smallest itself may be a lone number near the loss, so the lower quartile is taken.
std::vector<size_t> cuts_of(const std::vector<size_t>& crossing) {
  std::vector<size_t> sorted(crossing.begin() + 1, crossing.end());
  if (sorted.size() < 4) return {};
  std::sort(sorted.begin(), sorted.end());
  const size_t low = sorted[sorted.size() / 4];
  std::vector<size_t> cuts;
  for (size_t i = 1; i < crossing.size(); ++i)
    if (crossing[i] <= low + low / 10) cuts.push_back(i);
  return cuts;
}

uint64_t flops_of(const Graph& graph) { return graph.cost({}).flops; }

size_t load_of(const Graph& graph, size_t threads) { return plan_memory(graph, threads).live_bytes_max; }

}  // namespace

Graph recompute(const Graph& graph, size_t forward_nodes, const std::vector<Segment>& segments) {
  const Readers readers = readers_of(graph, forward_nodes);
  std::vector<Value> values = graph.values();
  std::vector<ValueId> instead(values.size());  // what the backward pass reads
  for (uint32_t v = 0; v < values.size(); ++v) instead[v] = {v};
  std::vector<std::vector<Node>> copies(graph.nodes().size());  // by the node in front of which they run

  size_t end_before = 0;
  for (const Segment& segment : segments) {
    BF_CHECK(end_before <= segment.begin && segment.begin <= segment.end && segment.end <= forward_nodes)
        << "segment " << segment.begin << " to " << segment.end;
    end_before = segment.end;
    const Again again = plan_segment(graph, readers, forward_nodes, segment);
    for (const size_t i : again.nodes) {
      Node copy = graph.nodes()[i];
      for (ValueId& v : copy.inputs) v = instead[v.index];
      for (ValueId& v : copy.outputs) {
        Value value = graph.values()[v.index];
        value.name += " (again)";
        value.output = false;
        values.push_back(std::move(value));
        const ValueId fresh{static_cast<uint32_t>(values.size() - 1)};
        if (again.forgotten[v.index]) instead[v.index] = fresh;
        v = fresh;
      }
      copy.name += " (again)";
      copies[again.before].push_back(std::move(copy));
    }
  }

  std::vector<Node> nodes;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    for (Node& copy : copies[i]) nodes.push_back(std::move(copy));
    nodes.push_back(graph.nodes()[i]);
    if (i < forward_nodes) continue;
    for (ValueId& v : nodes.back().inputs)
      if (v.index < instead.size()) v = instead[v.index];
  }
  return Graph::assemble(std::move(nodes), std::move(values), graph.slot_count());
}

RecomputeChoice choose_recompute(const Graph& graph, size_t forward_nodes, const RecomputeOptions& options) {
  RecomputeChoice best;
  best.load_before = best.load_after = load_of(graph, options.threads);
  best.flops_before = best.flops_after = flops_of(graph);
  const std::vector<size_t> cuts =
      cuts_of(crossing_bytes(graph, readers_of(graph, forward_nodes), forward_nodes));
  const auto flops_max = static_cast<uint64_t>(static_cast<double>(best.flops_before) * options.flops_max);
  for (size_t every = 1; every < cuts.size(); ++every) {
    std::vector<Segment> segments;
    for (size_t i = 0; i + every < cuts.size(); i += every) segments.push_back({cuts[i], cuts[i + every]});
    const Graph changed = recompute(graph, forward_nodes, segments);
    const uint64_t flops = flops_of(changed);
    if (flops > flops_max) continue;
    const size_t load = load_of(changed, options.threads);
    if (load >= best.load_after) continue;
    best.segments = std::move(segments);
    best.load_after = load;
    best.flops_after = flops;
  }
  return best;
}

}  // namespace butterfly::graph
