#include "cluster/testing/brute_force.h"

#include <algorithm>

#include "cluster/cost/piece_time.h"

namespace butterfly::cluster::testing {
namespace {

// Nodes that run a stage together, and how much of it each does.
struct Party {
  std::vector<size_t> nodes;
  std::vector<size_t> units;
};

// Sums of whole subtrees that cover units [begin, end) of the tree over [low, low + size).
size_t subtrees_in(size_t low, size_t size, size_t begin, size_t end) {
  if (end <= low || begin >= low + size) return 0;
  if (begin <= low && end >= low + size) return 1;
  return subtrees_in(low, size / 2, begin, end) + subtrees_in(low + size / 2, size / 2, begin, end);
}

// Grows a plan stage by stage. Uses none of Problem's tables: only pieces, nodes and links.
class Walk {
 public:
  explicit Walk(const Problem& problem) : problem_(problem) {
    Party party;
    grow(party, 0);
  }

  void extend(size_t begin, double latency_s, double slowest_s) {
    const PieceList& list = problem_.list();
    const ClusterSpec& cluster = problem_.cluster();
    if (begin == list.pieces.size()) return finish(latency_s, slowest_s);
    const double w = problem_.options().prefill_weight;
    for (const Party& party : parties_) {
      size_t mask = 0;
      for (size_t node : party.nodes) mask |= size_t{1} << node;
      if (used_ & mask) continue;
      double latency = latency_s, slowest = slowest_s;
      const bool first = plan_.stages.empty();
      const std::vector<size_t> from =
          first ? std::vector<size_t>{cluster.coordinator} : plan_.stages.back().nodes;
      travel(from, party.nodes, first ? list.decode_in_bytes : list.pieces[begin - 1].decode_out_bytes,
             first ? list.prefill_in_bytes : list.pieces[begin - 1].prefill_out_bytes, latency, slowest);
      double stage_s = 0;
      double bytes = 0;
      used_ |= mask;
      for (size_t end = begin + 1; end <= list.pieces.size(); ++end) {
        const Piece& piece = list.pieces[end - 1];
        stage_s +=
            seconds(party, piece, piece.decode, piece.decode_sum_bytes, piece.decode_gather_bytes, false) +
            w * seconds(party, piece, piece.prefill, piece.prefill_sum_bytes, piece.prefill_gather_bytes,
                        true);
        bytes += static_cast<double>(piece.weight_bytes + piece.kv_bytes);
        if (!fits(party, bytes)) break;
        plan_.stages.push_back({party.nodes, begin, end, shares(party)});
        extend(end, latency + stage_s, std::max(slowest, stage_s));
        plan_.stages.pop_back();
      }
      used_ ^= mask;
    }
  }

  BruteForce best;

 private:
  // Every ordered choice of nodes up to the allowed size, with every cut of the units.
  void grow(Party& party, size_t given) {
    const size_t units = problem_.list().share_units;
    const size_t most = std::min(std::max<size_t>(problem_.options().group_size_max, 1), units);
    if (given == units) return parties_.push_back(party);
    if (party.nodes.size() == most) return;
    for (size_t node = 0; node < problem_.cluster().size(); ++node) {
      if (std::find(party.nodes.begin(), party.nodes.end(), node) != party.nodes.end()) continue;
      for (size_t count = 1; given + count <= units; ++count) {
        party.nodes.push_back(node);
        party.units.push_back(count);
        grow(party, given + count);
        party.nodes.pop_back();
        party.units.pop_back();
      }
    }
  }

  std::vector<double> shares(const Party& party) const {
    std::vector<double> out;
    for (size_t count : party.units)
      out.push_back(static_cast<double>(count) / static_cast<double>(problem_.list().share_units));
    return out;
  }

  bool fits(const Party& party, double bytes) const {
    const std::vector<double> part = shares(party);
    for (size_t i = 0; i < part.size(); ++i)
      if (bytes * part[i] > static_cast<double>(problem_.cluster().nodes[party.nodes[i]].ram_bytes))
        return false;
    return true;
  }

  double seconds(const Party& party, const Piece& piece, const Work& work, double sum_bytes,
                 double gather_bytes, bool is_long) const {
    const ClusterSpec& cluster = problem_.cluster();
    const std::vector<double> part = shares(party);
    double longest = 0, overhead = 0, latency = 0, wire = 0, home_latency = 0, home = 0;
    size_t at = 0;
    std::vector<double> sends;
    for (size_t i = 0; i < part.size(); ++i) {
      PieceTime time = piece_time(work, cluster.nodes[party.nodes[i]]);
      overhead = std::max(overhead, time.overhead_s);
      time.overhead_s = 0;
      longest = std::max(longest, part[i] * time.seconds());
      sends.push_back(sum_bytes * static_cast<double>(
                                      subtrees_in(0, problem_.list().share_units, at, at + party.units[i])));
      at += party.units[i];
    }
    // Long sums of three members and more: an n-th of each goes to everybody, then an n-th of the results.
    const bool sliced = is_long && part.size() >= 3;
    double results = 0;
    for (size_t i = 0; i < part.size(); ++i) {
      double sent = 0, received = 0, sent_result = 0, received_result = 0;
      for (size_t j = 0; j < part.size(); ++j) {
        if (i == j) continue;
        latency = std::max(latency, cluster.link(party.nodes[i], party.nodes[j]).latency_s);
        sent += sends[i] / cluster.link(party.nodes[i], party.nodes[j]).bandwidth;
        received += sends[j] / cluster.link(party.nodes[j], party.nodes[i]).bandwidth;
        sent_result += sum_bytes / cluster.link(party.nodes[i], party.nodes[j]).bandwidth;
        received_result += sum_bytes / cluster.link(party.nodes[j], party.nodes[i]).bandwidth;
      }
      wire = std::max({wire, sent, received});
      results = std::max({results, sent_result, received_result});
      if (i > 0) {
        home_latency = std::max(home_latency, cluster.link(party.nodes[i], party.nodes[0]).latency_s);
        home += gather_bytes * part[i] / cluster.link(party.nodes[i], party.nodes[0]).bandwidth;
      }
    }
    if (sliced) {
      wire = (wire + results) / static_cast<double>(part.size());
      latency *= 2;
    }
    return longest + overhead + piece.exchanges * latency + wire +
           (gather_bytes > 0 ? home_latency + home : 0);
  }

  // The first members of both sides have a line; the receiver passes it on to the others.
  void travel(const std::vector<size_t>& from, const std::vector<size_t>& to, double bytes,
              double prefill_bytes, double& latency_s, double& slowest_s) const {
    const double w = problem_.options().prefill_weight, all = bytes + w * prefill_bytes;
    const ClusterSpec& cluster = problem_.cluster();
    if (from[0] != to[0]) {
      const LinkSpec& link = cluster.link(from[0], to[0]);
      latency_s += (1 + w) * link.latency_s + all / link.bandwidth;
      slowest_s = std::max(slowest_s, all / link.bandwidth);
    }
    double farthest = 0, busy = 0;
    for (size_t i = 1; i < to.size(); ++i) {
      farthest = std::max(farthest, cluster.link(to[0], to[i]).latency_s);
      busy += all / cluster.link(to[0], to[i]).bandwidth;
    }
    latency_s += (1 + w) * farthest + busy;
    slowest_s = std::max(slowest_s, busy);
  }

  void finish(double latency_s, double slowest_s) {
    const PlanOptions& options = problem_.options();
    const Piece& last = problem_.list().pieces.back();
    travel(plan_.stages.back().nodes, {problem_.cluster().coordinator}, last.decode_out_bytes,
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
  std::vector<Party> parties_;
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
