#include "cluster/testing/brute_force.h"

#include <algorithm>

#include "cluster/cost/piece_time.h"

namespace butterfly::cluster::testing {
namespace {

// Grows a plan stage by stage. Uses none of Problem's tables: only pieces, nodes and links.
class Walk {
 public:
  explicit Walk(const Problem& problem) : problem_(problem) {}

  void extend(size_t begin, double latency_s, double slowest_s) {
    const PieceList& list = problem_.list();
    const ClusterSpec& cluster = problem_.cluster();
    if (begin == list.pieces.size()) return finish(latency_s, slowest_s);
    const double w = problem_.options().prefill_weight;
    for (size_t node = 0; node < cluster.size(); ++node) {
      if (used_ >> node & 1) continue;
      double latency = latency_s, slowest = slowest_s;
      const bool first = plan_.stages.empty();
      const size_t from = first ? cluster.coordinator : plan_.stages.back().nodes[0];
      travel(from, node, first ? list.decode_in_bytes : list.pieces[begin - 1].decode_out_bytes,
             first ? list.prefill_in_bytes : list.pieces[begin - 1].prefill_out_bytes, latency, slowest);
      double stage_s = 0;
      uint64_t bytes = 0;
      used_ |= size_t{1} << node;
      for (size_t end = begin + 1; end <= list.pieces.size(); ++end) {
        const Piece& piece = list.pieces[end - 1];
        stage_s += piece_time(piece.decode, cluster.nodes[node]).seconds() +
                   w * piece_time(piece.prefill, cluster.nodes[node]).seconds();
        bytes += piece.weight_bytes + piece.kv_bytes;
        if (bytes > cluster.nodes[node].ram_bytes) break;
        plan_.stages.push_back({{node}, begin, end, {1.0}});
        extend(end, latency + stage_s, std::max(slowest, stage_s));
        plan_.stages.pop_back();
      }
      used_ ^= size_t{1} << node;
    }
  }

  BruteForce best;

 private:
  void travel(size_t from, size_t to, double bytes, double prefill_bytes, double& latency_s,
              double& slowest_s) const {
    if (from == to) return;
    const LinkSpec& link = problem_.cluster().link(from, to);
    const double w = problem_.options().prefill_weight;
    latency_s += link.message_s(bytes) + w * link.message_s(prefill_bytes);
    slowest_s = std::max(slowest_s, link.occupancy_s(bytes) + w * link.occupancy_s(prefill_bytes));
  }

  void finish(double latency_s, double slowest_s) {
    const PlanOptions& options = problem_.options();
    const Piece& last = problem_.list().pieces.back();
    travel(plan_.stages.back().nodes[0], problem_.cluster().coordinator, last.decode_out_bytes,
           last.prefill_out_bytes, latency_s, slowest_s);
    ++best.plans;
    double value = latency_s;
    if (options.objective == Objective::kThroughput) {
      if (latency_s > options.latency_limit_s) return;
      value = slowest_s;
      if (options.batches_in_flight > 0)
        value = std::max(static_cast<double>(options.batches_in_flight) * slowest_s, latency_s);
    }
    if (value < best.objective_s) best.objective_s = value, best.plan = plan_;
  }

  const Problem& problem_;
  Plan plan_;
  size_t used_ = 0;
};

}  // namespace

BruteForce brute_force(const Problem& problem) {
  Walk walk(problem);
  walk.extend(0, 0, 0);
  return walk.best;
}

}  // namespace butterfly::cluster::testing
