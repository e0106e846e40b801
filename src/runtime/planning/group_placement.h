// A plan in which several nodes share every layer: one stage, whose members have parts of it by their speed.
#pragma once
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "cluster/cost/problem.h"
#include "cluster/member/placement.h"

namespace butterfly::runtime {

// How long a stage may work without progress, whose longest step is predicted to take so many seconds.
Duration stall_limit(double longest_s);

// How many nodes may share each layer.
struct GroupChoice {
  size_t most = 1;      // 1: none do
  bool always = false;  // so many do, whatever it gains; else if it is predicted to be faster
  friend bool operator==(const GroupChoice&, const GroupChoice&) = default;
};
inline constexpr size_t kAutoGroupMax = 4;
// "off", "auto" or a number from 2 to 8. Throws Error kInvalidArgument that names `flag`.
GroupChoice parse_groups(std::string_view flag, std::string_view text);

// Units of heads and columns: the logical shards of a product (kernels/tiles/shards.h).
inline constexpr uint32_t kGroupUnits = 8;

// So many of `units` for each member that the slowest, which takes seconds[i] for all of them, is done as
// early as can be. None has more than most[i]; empty if that leaves some over.
std::vector<uint32_t> share_units(std::span<const double> seconds, std::span<const uint32_t> most,
                                  uint32_t units);
// The shares of members that have so many of kGroupUnits each, in this order.
std::vector<cluster::Share> shares_of(std::span<const uint32_t> units);

// All pieces on one stage of node `self` of the problem and those that serve it best, as many as the choice
// allows: the fastest such stage, as predicted. Nothing if no such stage fits, or all were without a link
// between two of its members. `nodes`: by the problem's numbers; links that cannot be used are in `broken`,
// by keys.
std::optional<cluster::Placement> group_placement(
    const cluster::Problem& problem, std::span<const cluster::PlanNode> nodes, size_t self,
    const GroupChoice& choice, std::span<const std::pair<std::string, std::string>> broken);

}  // namespace butterfly::runtime
