#include "cluster/cost/group.h"

#include <algorithm>
#include <bit>

namespace butterfly::cluster {
namespace {

constexpr size_t kAllOrdersMax = 4;  // 24 orders of 35 ways to cut eight units
constexpr size_t kKeptMax = 12;      // ways to share that one group is offered in

GroupShare share_as(const ClusterSpec& cluster, std::span<const size_t> nodes, std::span<const size_t> units,
                    size_t units_total, const GroupWork& work) {
  GroupShare out{{nodes.begin(), nodes.end()}, {units.begin(), units.end()}, 0, 0, UINT64_MAX};
  double decode_s = 0, prefill_s = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const double share = static_cast<double>(units[i]) / static_cast<double>(units_total);
    const size_t node = nodes[i];
    decode_s = std::max(decode_s, shared_seconds(work.decode_whole_s[node], work.decode_s[node], share));
    prefill_s = std::max(prefill_s, shared_seconds(work.prefill_whole_s[node], work.prefill_s[node], share));
    const double room = static_cast<double>(cluster.nodes[nodes[i]].ram_bytes) / share;
    out.room_bytes = std::min(out.room_bytes, static_cast<uint64_t>(std::min(room, 9e18)));
  }
  const GroupWire wire = group_wire(cluster, nodes, units);
  out.gather_s = wire.gather_seconds(work.exchanged.gather_bytes);
  out.seconds = decode_s + prefill_s + wire.seconds(work.exchanged) - out.gather_s;
  return out;
}

double alone_s(const GroupWork& work, size_t node) { return work.decode_s[node] + work.prefill_s[node]; }

// Calls visit(units) for every way to cut `left` units into parts.size() - at parts of at least one.
template <typename Visit>
void for_each_cut(std::vector<size_t>& parts, size_t at, size_t left, const Visit& visit) {
  if (at + 1 == parts.size()) {
    parts[at] = left;
    return visit(parts);
  }
  for (size_t here = 1; here + (parts.size() - at - 1) <= left; ++here) {
    parts[at] = here;
    for_each_cut(parts, at + 1, left - here, visit);
  }
}

}  // namespace

size_t subtree_count(size_t begin, size_t end) {
  size_t count = 0;
  while (begin < end) {
    size_t step = begin == 0 ? std::bit_floor(end) : begin & (~begin + 1);
    while (begin + step > end) step /= 2;
    begin += step;
    ++count;
  }
  return count;
}

GroupWire group_wire(const ClusterSpec& cluster, std::span<const size_t> nodes,
                     std::span<const size_t> units) {
  GroupWire wire;
  size_t total = 0;
  std::vector<double> parts;
  for (size_t count : units) {
    parts.push_back(static_cast<double>(subtree_count(total, total + count)));
    total += count;
  }
  const auto share = [&](size_t i) { return static_cast<double>(units[i]) / static_cast<double>(total); };
  double slice = 0;  // a member's results to all others, whole
  for (size_t i = 0; i < nodes.size(); ++i) {
    double send = 0, receive = 0, send_share = 0, receive_share = 0, send_one = 0, receive_one = 0;
    for (size_t j = 0; j < nodes.size(); ++j) {
      if (i == j) continue;
      const LinkSpec& out = cluster.link(nodes[i], nodes[j]);
      wire.latency_s = std::max(wire.latency_s, out.latency_s);
      send += out.occupancy_s(parts[i]);
      const LinkSpec& in = cluster.link(nodes[j], nodes[i]);
      receive += in.occupancy_s(parts[j]);
      send_share += out.occupancy_s(share(i));
      receive_share += in.occupancy_s(share(j));
      send_one += out.occupancy_s(1);
      receive_one += in.occupancy_s(1);
    }
    slice = std::max({slice, send_one, receive_one});
    wire.sum_s_per_byte = std::max({wire.sum_s_per_byte, send, receive});
    wire.spread_s_per_byte = std::max({wire.spread_s_per_byte, send_share, receive_share});
    if (i == 0) continue;
    const LinkSpec& home = cluster.link(nodes[i], nodes[0]);
    wire.gather_latency_s = std::max(wire.gather_latency_s, home.latency_s);
    // The first member's line carries them all.
    wire.gather_s_per_byte += home.occupancy_s(share(i));
  }
  wire.long_s_per_byte = wire.sum_s_per_byte;
  if (nodes.size() >= kMembersToSlice) {
    wire.long_rounds = 2;
    wire.long_s_per_byte = (wire.sum_s_per_byte + slice) / static_cast<double>(nodes.size());
  }
  return wire;
}

GroupShare quick_share(const ClusterSpec& cluster, std::span<const size_t> nodes, size_t units_total,
                       const GroupWork& work) {
  std::vector<size_t> order(nodes.begin(), nodes.end());
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return alone_s(work, a) < alone_s(work, b); });
  std::vector<size_t> units(order.size(), 1);
  for (size_t given = order.size(); given < units_total; ++given) {
    const auto seconds = [&](size_t i) {
      return static_cast<double>(units[i] + 1) * alone_s(work, order[i]);
    };
    size_t best = 0;
    for (size_t i = 1; i < order.size(); ++i)
      if (seconds(i) < seconds(best)) best = i;
    ++units[best];
  }
  return share_as(cluster, order, units, units_total, work);
}

std::vector<GroupShare> group_shares(const ClusterSpec& cluster, std::span<const size_t> nodes,
                                     size_t units_total, const GroupWork& work, uint64_t bytes_all,
                                     std::optional<size_t> first) {
  if (nodes.size() > units_total) return {};
  std::vector<size_t> order(nodes.begin(), nodes.end());
  const bool all_orders = order.size() <= kAllOrdersMax;
  if (all_orders)
    std::sort(order.begin(), order.end());
  else
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return alone_s(work, a) < alone_s(work, b); });
  const auto head = std::find(order.begin(), order.end(), first.value_or(SIZE_MAX));
  const bool has_head = head != order.end();
  if (has_head) std::rotate(order.begin(), head, head + 1);
  const auto from = order.begin() + (has_head ? 1 : 0);
  // The first member has the lines to other stages, so who is first makes a difference.
  const auto beats = [](const GroupShare& a, const GroupShare& b) {
    return a.nodes[0] == b.nodes[0] && a.seconds <= b.seconds && a.gather_s <= b.gather_s &&
           a.room_bytes >= b.room_bytes;
  };
  std::vector<GroupShare> all;
  std::vector<size_t> parts(order.size());
  do {
    for_each_cut(parts, 0, units_total, [&](const std::vector<size_t>& units) {
      GroupShare share = share_as(cluster, order, units, units_total, work);
      share.room_bytes = std::min(share.room_bytes, bytes_all);  // more room is of no use
      if (std::any_of(all.begin(), all.end(), [&](const GroupShare& other) { return beats(other, share); }))
        return;
      std::erase_if(all, [&](const GroupShare& other) { return beats(share, other); });
      all.push_back(std::move(share));
    });
  } while (all_orders && std::next_permutation(from, order.end()));
  std::sort(all.begin(), all.end(),
            [](const GroupShare& a, const GroupShare& b) { return a.seconds < b.seconds; });
  // The fastest and the roomiest always, and some between.
  while (all.size() > kKeptMax) all.erase(all.begin() + static_cast<ptrdiff_t>(all.size() / 2));
  return all;
}

}  // namespace butterfly::cluster
