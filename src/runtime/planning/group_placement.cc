#include "runtime/planning/group_placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "cluster/cost/piece_time.h"
#include "cluster/member/health.h"
#include "kernels/tiles/shards.h"

namespace butterfly::runtime {
namespace {

static_assert(kGroupUnits == kernels::kShardsMax);
constexpr Duration kStallLeast = std::chrono::seconds(3);
constexpr double kStallFactor = 6;  // times the longest step, as predicted

using Numbers = std::vector<size_t>;  // of nodes

bool is_broken(const Numbers& members, std::span<const cluster::PlanNode> nodes,
               std::span<const std::pair<std::string, std::string>> broken) {
  return std::ranges::any_of(broken, [&](const auto& pair) {
    const auto is_here = [&](const std::string& key) {
      return std::ranges::any_of(members, [&](size_t i) { return nodes[i].id.key == key; });
    };
    return is_here(pair.first) && is_here(pair.second);
  });
}

// A stage of these members; nothing if it does not fit. Every member has the embedding's table; the rest goes
// with the units.
std::optional<cluster::Placement> stage_of(const cluster::Problem& problem,
                                           std::span<const cluster::PlanNode> nodes, const Numbers& members) {
  const auto& pieces = problem.list().pieces;
  const uint64_t table = pieces.front().weight_bytes;
  const uint64_t shared = problem.memory_bytes(0, pieces.size()) - table;
  cluster::Work decode, prefill;
  for (const cluster::Piece& piece : pieces) {
    decode += piece.decode;
    prefill += piece.prefill;
  }
  std::vector<double> seconds;
  std::vector<uint32_t> most;
  double prefill_s = 0;
  for (const size_t i : members) {
    const cluster::NodeSpec& node = problem.cluster().nodes[i];
    seconds.push_back(cluster::piece_time(decode, node).seconds());
    const uint64_t room = node.ram_bytes - std::min(node.ram_bytes, table);
    most.push_back(shared == 0
                       ? kGroupUnits
                       : static_cast<uint32_t>(std::min<uint64_t>(
                             kGroupUnits, static_cast<uint64_t>(static_cast<double>(room) * kGroupUnits /
                                                                static_cast<double>(shared)))));
  }
  const std::vector<uint32_t> units = share_units(seconds, most, kGroupUnits);
  if (units.empty()) return std::nullopt;
  cluster::Stage shared_stage{.nodes = members, .begin = 0, .end = pieces.size()};
  for (size_t i = 0; i < members.size(); ++i) {
    const double part = static_cast<double>(units[i]) / kGroupUnits;
    shared_stage.shares.push_back(part);
    prefill_s = std::max(prefill_s,
                         part * cluster::piece_time(prefill, problem.cluster().nodes[members[i]]).seconds());
  }
  const double step_s = problem.unit_of(shared_stage).seconds(0, pieces.size());
  const std::vector<cluster::Share> shares = shares_of(units);
  cluster::Placement placement;
  placement.pieces = static_cast<uint32_t>(pieces.size());
  placement.tokens_per_s = step_s > 0 ? static_cast<double>(problem.list().batch) / step_s : 0;
  cluster::StagePlacement& stage = placement.stages.emplace_back();
  stage.end = placement.pieces;
  stage.stall_after = stall_limit(prefill_s + step_s);
  std::string words;
  for (size_t i = 0; i < members.size(); ++i) {
    stage.members.push_back(
        {.node = nodes[members[i]].id,
         .share = shares[i],
         .memory_bytes = table + static_cast<uint64_t>(static_cast<double>(shared) * units[i] / kGroupUnits),
         .predicted_s = step_s});
    words += fmt::format("{}{} {}/{}", i == 0 ? "" : ", ", nodes[members[i]].id.name, units[i], kGroupUnits);
  }
  placement.words = "every layer is shared: " + words;
  return placement;
}

}  // namespace

Duration stall_limit(double longest_s) {
  const auto longest = std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(std::min(kStallFactor * longest_s, 1e3)));
  return std::clamp<Duration>(longest, kStallLeast, cluster::kStallMost);
}

GroupChoice parse_groups(std::string_view flag, std::string_view text) {
  if (text == "off") return {};
  if (text == "auto") return {.most = kAutoGroupMax, .always = false};
  size_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < 2 || count > kGroupUnits)
    fail(Errc::kInvalidArgument, "{} {}: expected off, auto or a number from 2 to {}", flag, text,
         kGroupUnits);
  return {.most = count, .always = true};
}

// Unit by unit to whoever is done first with it: no other division has an earlier end.
std::vector<uint32_t> share_units(std::span<const double> seconds, std::span<const uint32_t> most,
                                  uint32_t units) {
  std::vector<uint32_t> mine(seconds.size());
  for (uint32_t unit = 0; unit < units; ++unit) {
    size_t best = seconds.size();
    for (size_t i = 0; i < seconds.size(); ++i)
      if (mine[i] < most[i] &&
          (best == seconds.size() || seconds[i] * (mine[i] + 1) < seconds[best] * (mine[best] + 1)))
        best = i;
    if (best == seconds.size()) return {};
    ++mine[best];
  }
  return mine;
}

std::vector<cluster::Share> shares_of(std::span<const uint32_t> units) {
  uint32_t all = 0, next = 0;
  for (const uint32_t count : units) all += count;
  std::vector<cluster::Share> shares;
  for (const uint32_t count : units) {
    for (cluster::ShareRange& range : shares.emplace_back().ranges) range = {next, next + count, all};
    next += count;
  }
  return shares;
}

std::optional<cluster::Placement> group_placement(
    const cluster::Problem& problem, std::span<const cluster::PlanNode> nodes, size_t self,
    const GroupChoice& choice, std::span<const std::pair<std::string, std::string>> broken) {
  // Others by their speed: the fastest ones first.
  Numbers others;
  for (size_t i = 0; i < nodes.size(); ++i)
    if (i != self) others.push_back(i);
  std::ranges::stable_sort(others, {}, [&](size_t i) { return problem.units()[i].time_sum.back(); });
  const size_t most = std::min(choice.most, nodes.size());
  std::optional<cluster::Placement> best;
  Numbers members = {self};
  for (const size_t other : others) {
    if (members.size() == most) break;
    members.push_back(other);
    if (is_broken(members, nodes, broken)) {
      members.pop_back();
      continue;
    }
    if (choice.always) continue;
    auto placement = stage_of(problem, nodes, members);
    if (placement && (!best || placement->tokens_per_s > best->tokens_per_s)) best = std::move(placement);
  }
  if (choice.always && members.size() > 1) best = stage_of(problem, nodes, members);
  return best;
}

}  // namespace butterfly::runtime
