// A group of nodes that share every piece (tensor parallel): what its members send each other in a step, and
// how much of the work each should have.
//
// A piece has a number of equal parts, its units: a power of two. Members own neighbouring ones, in order. A
// product that is summed over the units is a perfect binary tree over them, and a member sends the sum of
// each whole subtree that it owns to every other member (docs/decisions/0012-shard-sums.md).
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cluster/node/cluster_spec.h"

namespace butterfly::cluster {

// The largest whole subtrees that units [begin, end) consist of: [0, 4) is one, [1, 8) are three.
size_t subtree_count(size_t begin, size_t end);

// Bytes of all that members exchange in a step through some pieces, and how often they do (see Piece).
struct Exchanged {
  double exchanges = 0;
  double sum_bytes = 0;
  // Of many rows, as prompts have them: finished in slices by three members and more.
  double long_exchanges = 0;
  double long_sum_bytes = 0;
  double spread_bytes = 0;
  double gather_bytes = 0;
};

// From so many members on each finishes a slice of a long sum and sends it to the others: two rounds in which
// less travels than in the one in which everybody sends everybody what it has (graph/exchange.h).
inline constexpr size_t kMembersToSlice = 3;

// What an exchange costs. A whole sum of b bytes is with everybody after latency_s + b * sum_s_per_byte:
// members send side by side, each over its own line, to one after the other.
struct GroupWire {
  double latency_s = 0;       // of the two members that are farthest apart
  double sum_s_per_byte = 0;  // of the member that sends or receives longest
  double long_rounds = 1;     // the same of long sums: so often the latency
  double long_s_per_byte = 0;
  double spread_s_per_byte = 0;  // the same, of outputs of which each member has its share
  // All but the first member hand their part of an output to it.
  double gather_latency_s = 0;
  double gather_s_per_byte = 0;

  double seconds(const Exchanged& what) const {
    return (what.exchanges + what.long_exchanges * long_rounds) * latency_s +
           what.sum_bytes * sum_s_per_byte + what.long_sum_bytes * long_s_per_byte +
           what.spread_bytes * spread_s_per_byte + gather_seconds(what.gather_bytes);
  }
  double gather_seconds(double bytes) const {
    return bytes > 0 ? gather_latency_s + bytes * gather_s_per_byte : 0;
  }
};

// `units` are the parts of the members, in order.
GroupWire group_wire(const ClusterSpec& cluster, std::span<const size_t> nodes,
                     std::span<const size_t> units);

// A way to share the chain: members in the order of their units.
struct GroupShare {
  std::vector<size_t> nodes;
  std::vector<size_t> units;
  double seconds = 0;       // of a step through the whole chain, but for what is gathered at its end
  double gather_s = 0;      // and that
  uint64_t room_bytes = 0;  // of weights and cache, until the first member is full
};

// The chain as one piece, for comparing shares.
struct GroupWork {
  std::vector<double> decode_s;   // by node of the cluster, alone
  std::vector<double> prefill_s;  // the same of the prompt's part, if a token bears one: members wait in both
  std::vector<double> decode_whole_s, prefill_whole_s;  // of both, what every member does whatever its share
  Exchanged exchanged;
};

// Seconds of a member that does its share of what takes all_s alone, but for a part that everybody does.
inline double shared_seconds(double whole_s, double all_s, double share) {
  return whole_s + share * (all_s - whole_s);
}

// A good way at once: the fastest members first, units by speed.
GroupShare quick_share(const ClusterSpec& cluster, std::span<const size_t> nodes, size_t units_total,
                       const GroupWork& work);

// The ways to share `units_total` units over these nodes, every one with at least one, that no other with the
// same first member beats in time, gathering and room at once, fastest first; `bytes_all` is the most that
// anybody can need. All orders of up to four members are tried, of more the fastest first; `first` is always
// the first member where it is one. Empty: more members than units.
std::vector<GroupShare> group_shares(const ClusterSpec& cluster, std::span<const size_t> nodes,
                                     size_t units_total, const GroupWork& work, uint64_t bytes_all,
                                     std::optional<size_t> first = {});

}  // namespace butterfly::cluster
