#include "cluster/cost/problem.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/error.h"
#include "cluster/cost/piece_time.h"

namespace butterfly::cluster {
namespace {

// Groups grow as subsets do; beyond these the search would not end in a second.
constexpr size_t kAllGroupsNodesMax = 12;
constexpr size_t kGroupsMax = 160;
constexpr double kForbiddenHop_s = 1e6;  // no plan is worth a step of 12 days

// Without what a node takes for a piece whatever there is to do.
double busy_s(const Work& work, const NodeSpec& node) {
  PieceTime time = piece_time(work, node);
  time.overhead_s = 0;
  return time.seconds();
}

// Parts of the whole.
std::vector<double> fractions(std::span<const size_t> units) {
  const auto total = static_cast<double>(std::accumulate(units.begin(), units.end(), size_t{0}));
  std::vector<double> out;
  for (size_t count : units) out.push_back(static_cast<double>(count) / total);
  return out;
}

// Large groups are faster, and would crowd out small ones, of which a chain can have more: sizes take turns.
// Of one size the best way of every group comes first. `groups` are sorted by time, and stay so.
void keep_some(std::vector<Unit>& groups, size_t most) {
  std::map<std::vector<size_t>, size_t> ways;                        // of the same nodes, so far
  std::map<size_t, std::vector<std::pair<size_t, size_t>>> by_size;  // (way, number)
  for (size_t i = 0; i < groups.size(); ++i) {
    std::vector<size_t> nodes = groups[i].nodes;
    std::ranges::sort(nodes);
    by_size[nodes.size()].emplace_back(ways[nodes]++, i);
  }
  for (auto& [size, list] : by_size) std::ranges::sort(list);
  std::vector<size_t> kept;
  for (size_t turn = 0; kept.size() < most && turn < groups.size(); ++turn)
    for (const auto& [size, list] : by_size)
      if (turn < list.size() && kept.size() < most) kept.push_back(list[turn].second);
  std::ranges::sort(kept);
  std::vector<Unit> some;
  for (const size_t i : kept) some.push_back(std::move(groups[i]));
  groups = std::move(some);
}

}  // namespace

Problem::Problem(PieceList list, ClusterSpec cluster, PlanOptions options)
    : list_(std::move(list)), cluster_(std::move(cluster)), options_(std::move(options)) {
  cluster_.check();
  if (pieces() == 0) fail(Errc::kInvalidArgument, "{}: nothing to plan, no pieces", list_.model);
  memory_sum_.push_back(0);
  whole_sum_.push_back(0);
  for (const Piece& piece : list_.pieces) {
    memory_sum_.push_back(memory_sum_.back() + piece.memory_bytes());
    whole_sum_.push_back(whole_sum_.back() + std::min(piece.whole_bytes, piece.memory_bytes()));
  }

  for (size_t node = 0; node < nodes(); ++node) units_.push_back(make_unit({&node, 1}, {1}));
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
      for (const Unit& to : units_)
        table.push_back(has_last_node(from.nodes)
                            ? Hop{kForbiddenHop_s, kForbiddenHop_s}
                            : hop_between(from.nodes, to.nodes, decode, prefill) + unwanted(to));
  }
  const Piece& last = list_.pieces.back();
  for (const Unit& unit : units_) {
    entry_.push_back(
        hop_between({&cluster_.coordinator, 1}, unit.nodes, list_.decode_in_bytes, list_.prefill_in_bytes) +
        unwanted(unit));
    exit_.push_back(
        hop_between(unit.nodes, {&cluster_.coordinator, 1}, last.decode_out_bytes, last.prefill_out_bytes));
  }
}

// For each member that it has too few of.
Problem::Hop Problem::unwanted(const Unit& to) const {
  const size_t wanted = std::min({options_.group_size_wanted, options_.group_size_max, list_.share_units});
  const double seconds = kUnwanted_s * static_cast<double>(wanted - std::min(wanted, to.nodes.size()));
  return {seconds, seconds};
}

uint64_t Problem::member_bytes(double share, size_t begin, size_t end) const {
  const uint64_t all = memory_bytes(begin, end), whole = whole_sum_[end] - whole_sum_[begin];
  return share >= 1 ? all : whole + static_cast<uint64_t>(share * static_cast<double>(all - whole));
}

bool Problem::fits(const Unit& unit, size_t begin, size_t end) const {
  for (size_t i = 0; i < unit.nodes.size(); ++i)
    if (member_bytes(unit.shares[i], begin, end) > cluster_.nodes[unit.nodes[i]].ram_bytes) return false;
  return true;
}

// Members compute their shares and what all of them do side by side, then exchange.
//   time = max over members (time of the whole + share x (time alone - time of the whole))
//          + exchanges x latency + bytes of the sums x time of a byte
double Problem::piece_seconds(size_t index, const Unit& unit) const {
  const Piece& piece = list_.pieces[index];
  const double w = options_.prefill_weight;
  double decode_s = 0, prefill_s = 0, overhead = 0;
  for (size_t i = 0; i < unit.nodes.size(); ++i) {
    const NodeSpec& node = cluster_.nodes[unit.nodes[i]];
    PieceTime decode = piece_time(piece.decode, node), prefill = piece_time(piece.prefill, node);
    overhead = std::max(overhead, decode.overhead_s + w * prefill.overhead_s);
    decode.overhead_s = prefill.overhead_s = 0;
    // Members wait for each other in every step, so the slowest of each kind of step counts.
    const double share = unit.shares[i];
    decode_s = std::max(decode_s, shared_seconds(busy_s(piece.decode_whole, node), decode.seconds(), share));
    prefill_s =
        std::max(prefill_s, shared_seconds(busy_s(piece.prefill_whole, node), prefill.seconds(), share));
  }
  return decode_s + w * prefill_s + overhead + unit.wire.seconds(piece.decode_exchanged()) +
         w * unit.wire.seconds(piece.prefill_exchanged());
}

Unit Problem::make_unit(std::span<const size_t> nodes, std::vector<double> shares) const {
  Unit unit;
  unit.nodes.assign(nodes.begin(), nodes.end());
  unit.shares = std::move(shares);
  unit.memory_bytes = UINT64_MAX;
  std::vector<size_t> units;
  for (size_t i = 0; i < nodes.size(); ++i) {
    units.push_back(
        static_cast<size_t>(std::lround(unit.shares[i] * static_cast<double>(list_.share_units))));
    const uint64_t ram = cluster_.nodes[nodes[i]].ram_bytes;
    const double room = static_cast<double>(ram) / unit.shares[i];
    unit.memory_bytes =
        std::min(unit.memory_bytes, nodes.size() == 1 ? ram : static_cast<uint64_t>(std::min(room, 9e18)));
  }
  if (nodes.size() > 1) unit.wire = group_wire(cluster_, nodes, units);
  unit.time_sum.push_back(0);
  for (size_t i = 0; i < pieces(); ++i)
    unit.time_sum.push_back(unit.time_sum.back() + piece_seconds(i, unit));
  return unit;
}

Unit Problem::unit_of(const Stage& stage) const {
  if (stage.nodes.size() == 1) return units_[stage.nodes[0]];
  if (!stage.shares.empty()) return make_unit(stage.nodes, stage.shares);
  std::vector<Unit> ways = ways_of(stage.nodes);
  const auto fitting =
      std::ranges::find_if(ways, [&](const Unit& unit) { return fits(unit, stage.begin, stage.end); });
  return std::move(fitting == ways.end() ? ways.front() : *fitting);
}

std::vector<Unit> Problem::ways_of(std::span<const size_t> nodes) const {
  if (nodes.size() == 1) return {units_[nodes[0]]};
  const std::vector<GroupShare> shares =
      group_shares(cluster_, nodes, list_.share_units, group_work(), memory_sum_.back(), options_.last_node);
  if (shares.empty())
    fail(Errc::kInvalidArgument, "a stage is shared by {} nodes, {} has {} part{} to share", nodes.size(),
         list_.model, list_.share_units, list_.share_units == 1 ? "" : "s");
  std::vector<Unit> ways;
  for (const GroupShare& share : shares) ways.push_back(make_unit(share.nodes, fractions(share.units)));
  return ways;
}

bool Problem::has_last_node(std::span<const size_t> nodes) const {
  return options_.last_node && std::find(nodes.begin(), nodes.end(), *options_.last_node) != nodes.end();
}

GroupWork Problem::group_work() const {
  GroupWork work;
  const double w = options_.prefill_weight;
  for (auto* seconds : {&work.decode_s, &work.prefill_s, &work.decode_whole_s, &work.prefill_whole_s})
    seconds->assign(nodes(), 0);
  for (const Piece& piece : list_.pieces) {
    for (size_t node = 0; node < nodes(); ++node) {
      const NodeSpec& spec = cluster_.nodes[node];
      work.decode_s[node] += busy_s(piece.decode, spec);
      work.prefill_s[node] += w * busy_s(piece.prefill, spec);
      work.decode_whole_s[node] += busy_s(piece.decode_whole, spec);
      work.prefill_whole_s[node] += w * busy_s(piece.prefill_whole, spec);
    }
    const Exchanged decode = piece.decode_exchanged(), prefill = piece.prefill_exchanged();
    work.exchanged.exchanges += decode.exchanges;
    work.exchanged.sum_bytes += decode.sum_bytes;
    work.exchanged.long_exchanges += decode.long_exchanges + w * prefill.long_exchanges;
    work.exchanged.long_sum_bytes += decode.long_sum_bytes + w * prefill.long_sum_bytes;
    work.exchanged.spread_bytes += decode.spread_bytes + w * prefill.spread_bytes;
    work.exchanged.gather_bytes += decode.gather_bytes + w * prefill.gather_bytes;
  }
  return work;
}

std::vector<std::vector<size_t>> Problem::group_candidates(size_t most, const GroupWork& work) {
  std::vector<std::vector<size_t>> out;
  std::vector<size_t> able;  // a node without memory is none that could have a share
  for (size_t node = 0; node < nodes(); ++node)
    if (cluster_.nodes[node].ram_bytes > 0) able.push_back(node);
  if (able.size() <= kAllGroupsNodesMax) {
    for (uint32_t mask = 1; mask < uint32_t{1} << able.size(); ++mask) {
      std::vector<size_t> members;
      for (size_t i = 0; i < able.size(); ++i)
        if (mask >> i & 1) members.push_back(able[i]);
      if (members.size() >= 2 && members.size() <= most) out.push_back(std::move(members));
    }
    return out;
  }
  // For every size a cover of the cluster: the fastest node that is left takes, one by one, whoever makes the
  // group fastest.
  all_groups_ = false;
  std::vector<size_t>& by_speed = able;
  std::stable_sort(by_speed.begin(), by_speed.end(),
                   [&](size_t a, size_t b) { return units_[a].time_sum.back() < units_[b].time_sum.back(); });
  for (size_t size = 2; size <= most; ++size) {
    std::vector<size_t> left = by_speed;
    while (left.size() >= size) {
      std::vector<size_t> members = {left.front()};
      left.erase(left.begin());
      while (members.size() < size) {
        const auto seconds_with = [&](size_t node) {
          members.push_back(node);
          const double seconds = quick_share(cluster_, members, list_.share_units, work).seconds;
          members.pop_back();
          return seconds;
        };
        size_t best = 0;
        double best_s = kNever;
        for (size_t i = 0; i < left.size(); ++i)
          if (const double s = seconds_with(left[i]); s < best_s) best_s = s, best = i;
        members.push_back(left[best]);
        left.erase(left.begin() + static_cast<ptrdiff_t>(best));
      }
      out.push_back(std::move(members));
    }
  }
  return out;
}

void Problem::add_groups() {
  const size_t most = std::min({options_.group_size_max, list_.share_units, nodes()});
  if (most < 2) return;
  const GroupWork work = group_work();
  const uint64_t bytes_all = memory_sum_.back();
  std::vector<Unit> groups;
  for (const std::vector<size_t>& members : group_candidates(most, work)) {
    for (const GroupShare& share :
         group_shares(cluster_, members, list_.share_units, work, bytes_all, options_.last_node)) {
      Unit group = make_unit(share.nodes, fractions(share.units));
      // A member that holds as much and is as fast alone does without the others. What the last piece gathers
      // is not asked for: other stages do not pay it.
      const double seconds = group.time_sum.back() - share.gather_s;
      if (members.size() <= options_.group_size_wanted ||
          std::none_of(members.begin(), members.end(), [&](size_t node) {
            return units_[node].memory_bytes >= share.room_bytes && units_[node].time_sum.back() <= seconds;
          }))
        groups.push_back(std::move(group));
    }
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Unit& a, const Unit& b) { return a.time_sum.back() < b.time_sum.back(); });
  if (all_groups_ && groups.size() > kGroupsMax) {
    all_groups_ = false;
    keep_some(groups, kGroupsMax);
  }
  for (Unit& group : groups) units_.push_back(std::move(group));
}

// From first member to first member, which passes it on to the others of its group.
Problem::Hop Problem::hop_between(std::span<const size_t> from, std::span<const size_t> to,
                                  double decode_bytes, double prefill_bytes) const {
  const double w = options_.prefill_weight, bytes = decode_bytes + w * prefill_bytes;
  Hop hop;
  if (from[0] != to[0]) {
    const LinkSpec& link = cluster_.link(from[0], to[0]);
    hop.busy_s = link.occupancy_s(bytes);
    hop.message_s = (1 + w) * link.latency_s + hop.busy_s;
  }
  double latency_s = 0, busy_s = 0;
  for (size_t other : to.subspan(1)) {
    const LinkSpec& link = cluster_.link(to[0], other);
    latency_s = std::max(latency_s, link.latency_s);
    busy_s += link.occupancy_s(bytes);
  }
  hop.busy_s = std::max(hop.busy_s, busy_s);
  hop.message_s += (1 + w) * latency_s + busy_s;
  return hop;
}

}  // namespace butterfly::cluster
