#include "cluster/sim/sim_cluster.h"

#include <cmath>

#include "cluster/cost/piece_time.h"

namespace butterfly::cluster {
namespace {

bool same_times(const SimPieces& a, const SimPieces& b) {
  return a.weight_s == b.weight_s && a.prefill_weight_s == b.prefill_weight_s &&
         a.decode_compute_s == b.decode_compute_s && a.decode_memory_s == b.decode_memory_s &&
         a.prefill_compute_s == b.prefill_compute_s && a.prefill_memory_s == b.prefill_memory_s &&
         a.overhead_s == b.overhead_s;
}

// Of the member of the stage that takes longest; one node is a group of one.
SimPieces times_of(const Problem& problem, const Piece& piece, const Unit& unit) {
  const PieceList& list = problem.list();
  const auto batch = static_cast<double>(list.batch),
             prompt = static_cast<double>(std::max<size_t>(list.prompt, 1));
  // A prompt runs in parts of up to 512 rows, each of which reads the weights.
  const double parts = std::ceil(prompt / 512);
  SimPieces out;
  double longest = -1;
  for (size_t m = 0; m < unit.nodes.size(); ++m) {
    const NodeSpec& node = problem.cluster().nodes[unit.nodes[m]];
    const double share = unit.shares[m], rate = node.memory_rate();
    if (share * piece_time(piece.decode, node).seconds() <= longest) continue;
    longest = share * piece_time(piece.decode, node).seconds();
    out.weight_s = share * piece.decode.weight_bytes / rate;
    out.prefill_weight_s = share * piece.prefill.weight_bytes / rate / parts;
    out.decode_compute_s = share * piece_time(piece.decode, node).compute_s / batch;
    out.decode_memory_s = share * (piece.decode.kv_bytes + piece.decode.activation_bytes) / rate / batch;
    out.prefill_compute_s = share * piece_time(piece.prefill, node).compute_s / prompt;
    out.prefill_memory_s = share * (piece.prefill.kv_bytes + piece.prefill.activation_bytes) / rate / prompt;
    out.overhead_s = node.piece_overhead_s;
  }
  const double decode_wire_s = unit.wire.seconds(piece.decode_exchanged());
  const double prefill_wire_s = unit.wire.seconds(piece.prefill_exchanged());
  const double once_s = piece.exchanges * unit.wire.latency_s;
  out.overhead_s += once_s;
  out.decode_compute_s += (decode_wire_s - once_s) / batch;
  out.decode_memory_s += (decode_wire_s - once_s) / batch;
  out.prefill_compute_s += (prefill_wire_s - once_s) / prompt;
  out.prefill_memory_s += (prefill_wire_s - once_s) / prompt;
  return out;
}

SimLink link_between(const Problem& problem, std::span<const size_t> from, std::span<const size_t> to,
                     double decode_bytes, double prefill_bytes) {
  const PieceList& list = problem.list();
  SimLink out;
  // From the two message sizes: what hop_between says of none and of one byte.
  const Problem::Hop empty = problem.hop_between(from, to, 0, 0), byte = problem.hop_between(from, to, 1, 0);
  const double w = problem.options().prefill_weight;
  out.latency_s = empty.message_s / (1 + w);
  if (byte.busy_s > 0) out.bandwidth = 1 / byte.busy_s;
  out.decode_row_bytes = byte.busy_s > 0 ? decode_bytes / static_cast<double>(list.batch) : 0;
  out.prefill_row_bytes =
      byte.busy_s > 0 ? prefill_bytes / static_cast<double>(std::max<size_t>(list.prompt, 1)) : 0;
  return out;
}

}  // namespace

SimCluster sim_cluster(const Problem& problem, const Plan& plan) {
  const PieceList& list = problem.list();
  SimCluster out;
  const size_t coordinator[] = {problem.cluster().coordinator};
  std::span<const size_t> from = coordinator;
  double decode = list.decode_in_bytes, prefill = list.prefill_in_bytes;
  for (const Stage& stage : plan.stages) {
    const Unit unit = problem.unit_of(stage);
    out.links.push_back(link_between(problem, from, stage.nodes, decode, prefill));
    SimStage& to = out.stages.emplace_back();
    for (size_t node : stage.nodes)
      to.name += (to.name.empty() ? "" : "+") + problem.cluster().nodes[node].name;
    for (size_t i = stage.begin; i < stage.end; ++i) {
      const SimPieces times = times_of(problem, list.pieces[i], unit);
      bool known = false;
      for (SimPieces& other : to.pieces)
        if (!known && same_times(other, times)) other.count += 1, known = true;
      if (!known) to.pieces.push_back(times);
    }
    from = stage.nodes;
    decode = list.pieces[stage.end - 1].decode_out_bytes;
    prefill = list.pieces[stage.end - 1].prefill_out_bytes;
  }
  out.links.push_back(link_between(problem, from, coordinator, decode, prefill));
  return out;
}

}  // namespace butterfly::cluster
