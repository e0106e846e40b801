#include "cluster/cost/problem.h"

#include <algorithm>

#include "base/error.h"
#include "cluster/cost/piece_time.h"

namespace butterfly::cluster {
namespace {

// Groups grow as subsets do; beyond these the search would not end in a second.
constexpr size_t kGroupNodesMax = 12;
constexpr size_t kGroupSizeMax = 4;
constexpr size_t kGroupsMax = 160;

// Slowest latency and bandwidth between members.
LinkSpec weakest_link(const ClusterSpec& cluster, std::span<const size_t> nodes) {
  LinkSpec weakest{0, kNever};
  for (size_t a : nodes)
    for (size_t b : nodes) {
      if (a == b) continue;
      weakest.latency_s = std::max(weakest.latency_s, cluster.link(a, b).latency_s);
      weakest.bandwidth = std::min(weakest.bandwidth, cluster.link(a, b).bandwidth);
    }
  return weakest;
}

}  // namespace

Problem::Problem(PieceList list, ClusterSpec cluster, PlanOptions options)
    : list_(std::move(list)), cluster_(std::move(cluster)), options_(std::move(options)) {
  cluster_.check();
  if (pieces() == 0) fail(Errc::kInvalidArgument, "{}: nothing to plan, no pieces", list_.model);
  memory_sum_.push_back(0);
  for (const Piece& piece : list_.pieces) memory_sum_.push_back(memory_sum_.back() + piece.memory_bytes());

  for (size_t node = 0; node < nodes(); ++node) units_.push_back(unit_of({&node, 1}));
  if (options_.group_size_max > 1) add_groups();

  cut_class_.assign(pieces() + 1, 0);
  std::vector<std::pair<double, double>> classes;
  for (size_t cut = 1; cut < pieces(); ++cut) {
    const Piece& before = list_.pieces[cut - 1];
    const std::pair bytes(before.decode_out_bytes, before.prefill_out_bytes);
    const auto it = std::find(classes.begin(), classes.end(), bytes);
    cut_class_[cut] = static_cast<size_t>(it - classes.begin());
    if (it == classes.end()) classes.push_back(bytes);
  }
  for (const auto& [decode, prefill] : classes) {
    std::vector<Hop>& table = hops_.emplace_back();
    for (const Unit& from : units_)
      for (const Unit& to : units_) table.push_back(hop_between(from.nodes, to.nodes, decode, prefill));
  }
  const Piece& last = list_.pieces.back();
  for (const Unit& unit : units_) {
    entry_.push_back(
        hop_between({&cluster_.coordinator, 1}, unit.nodes, list_.decode_in_bytes, list_.prefill_in_bytes));
    exit_.push_back(
        hop_between(unit.nodes, {&cluster_.coordinator, 1}, last.decode_out_bytes, last.prefill_out_bytes));
  }
}

// Members compute their shares side by side, then exchange: each hands its part to all others over the
// weakest link.
//   time = max over members (share x time alone) + exchanges x latency + bytes x (k - 1) / bandwidth
double Problem::piece_seconds(size_t index, const Unit& unit) const {
  const Piece& piece = list_.pieces[index];
  const double w = options_.prefill_weight;
  double seconds = 0, overhead = 0;
  for (size_t i = 0; i < unit.nodes.size(); ++i) {
    const NodeSpec& node = cluster_.nodes[unit.nodes[i]];
    PieceTime decode = piece_time(piece.decode, node), prefill = piece_time(piece.prefill, node);
    overhead = std::max(overhead, decode.overhead_s + w * prefill.overhead_s);
    decode.overhead_s = prefill.overhead_s = 0;
    seconds = std::max(seconds, unit.shares[i] * (decode.seconds() + w * prefill.seconds()));
  }
  if (unit.nodes.size() > 1) {
    const LinkSpec link = weakest_link(cluster_, unit.nodes);
    const auto k = static_cast<double>(unit.nodes.size());
    seconds += piece.gathers * link.latency_s * (1 + w) +
               link.occupancy_s((piece.decode_gather_bytes + w * piece.prefill_gather_bytes) * (k - 1));
  }
  return seconds + overhead;
}

Unit Problem::unit_of(std::span<const size_t> nodes) const {
  Unit unit;
  unit.nodes.assign(nodes.begin(), nodes.end());
  // Shares by speed on the whole chain: slower members get less of every piece.
  Work all;
  for (const Piece& piece : list_.pieces) all += piece.decode;
  double speeds = 0;
  for (size_t node : nodes) {
    unit.shares.push_back(1 / std::max(piece_time(all, cluster_.nodes[node]).seconds(), 1e-300));
    speeds += unit.shares.back();
  }
  unit.memory_bytes = UINT64_MAX;
  for (size_t i = 0; i < nodes.size(); ++i) {
    unit.shares[i] = nodes.size() == 1 ? 1 : unit.shares[i] / speeds;
    const double room = static_cast<double>(cluster_.nodes[nodes[i]].ram_bytes) / unit.shares[i];
    const uint64_t bytes =
        nodes.size() == 1 ? cluster_.nodes[nodes[i]].ram_bytes : static_cast<uint64_t>(std::min(room, 9e18));
    unit.memory_bytes = std::min(unit.memory_bytes, bytes);
  }
  unit.time_sum.push_back(0);
  for (size_t i = 0; i < pieces(); ++i)
    unit.time_sum.push_back(unit.time_sum.back() + piece_seconds(i, unit));
  return unit;
}

void Problem::add_groups() {
  if (nodes() > kGroupNodesMax)
    fail(Errc::kUnsupported, "tensor-parallel groups are searched among up to {} nodes, the cluster has {}",
         kGroupNodesMax, nodes());
  const size_t most = std::min({options_.group_size_max, kGroupSizeMax, nodes()});
  std::vector<Unit> groups;
  for (uint32_t mask = 1; mask < uint32_t{1} << nodes(); ++mask) {
    std::vector<size_t> members;
    double fastest = kNever;
    for (size_t node = 0; node < nodes(); ++node)
      if (mask >> node & 1) {
        members.push_back(node);
        fastest = std::min(fastest, units_[node].time_sum.back());
      }
    if (members.size() < 2 || members.size() > most) continue;
    Unit group = unit_of(members);
    if (group.time_sum.back() < fastest) groups.push_back(std::move(group));
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Unit& a, const Unit& b) { return a.time_sum.back() < b.time_sum.back(); });
  if (groups.size() > kGroupsMax) groups.resize(kGroupsMax);
  for (Unit& group : groups) units_.push_back(std::move(group));
}

// The member with the shortest way sends to every member of the other side.
Problem::Hop Problem::hop_between(std::span<const size_t> from, std::span<const size_t> to,
                                  double decode_bytes, double prefill_bytes) const {
  const double w = options_.prefill_weight;
  Hop best{kNever, kNever};
  for (size_t a : from) {
    LinkSpec link{0, kNever};
    double receivers = 0;
    for (size_t b : to) {
      if (a == b) continue;
      link.latency_s = std::max(link.latency_s, cluster_.link(a, b).latency_s);
      link.bandwidth = std::min(link.bandwidth, cluster_.link(a, b).bandwidth);
      receivers += 1;
    }
    Hop hop;
    if (receivers > 0) {
      hop.busy_s = link.occupancy_s(receivers * (decode_bytes + w * prefill_bytes));
      hop.message_s = (1 + w) * link.latency_s + hop.busy_s;
    }
    if (hop.message_s < best.message_s) best = hop;
  }
  // One member with the result is enough for the way back.
  if (to.size() == 1 && std::find(from.begin(), from.end(), to[0]) != from.end()) return {};
  return best;
}

}  // namespace butterfly::cluster
