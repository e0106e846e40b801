#include "cluster/partition/bounds.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace butterfly::cluster {
namespace {

// Which ends of the chain a stage has. Inner pieces are those between the first and the last.
enum Ends : size_t { kInner = 0, kFirst = 1, kLast = 2, kBoth = 3 };

// Least cost of a stage with `count` inner pieces on one unit, for each kind of ends; kNever where none fits.
struct UnitCosts {
  std::vector<double> cost[4];
};

double cheapest_way_in(const Problem& problem, std::span<const size_t> units, size_t to, double cap_s) {
  double least = kNever;
  for (size_t cls = 0; cls < problem.cut_classes(); ++cls)
    for (size_t from : units) {
      const Problem::Hop& hop = problem.hop(cls, from, to);
      if (from != to && hop.busy_s <= cap_s) least = std::min(least, hop.message_s);
    }
  return least;
}

UnitCosts unit_costs(const Problem& problem, std::span<const size_t> units, size_t index, double cap_s) {
  const size_t pieces = problem.pieces(), inner = pieces - 2;
  const Unit& unit = problem.units()[index];
  const double way_in = cheapest_way_in(problem, units, index, cap_s);
  const Problem::Hop& entry = problem.entry(index);
  const Problem::Hop& exit = problem.exit(index);
  const bool enters = entry.busy_s <= cap_s, leaves = exit.busy_s <= cap_s;
  const auto seconds = [&](size_t begin, size_t end) {
    const double s = unit.seconds(begin, end);
    return problem.fits(index, begin, end) && s <= cap_s ? s : kNever;
  };
  UnitCosts out;
  for (auto& cost : out.cost) cost.assign(inner + 1, kNever);
  for (size_t n = 0; n <= inner; ++n) {
    if (n > 0)
      for (size_t begin = 1; begin + n <= pieces - 1; ++begin)
        out.cost[kInner][n] = std::min(out.cost[kInner][n], way_in + seconds(begin, begin + n));
    if (enters) out.cost[kFirst][n] = entry.message_s + seconds(0, n + 1);
    if (leaves) out.cost[kLast][n] = way_in + seconds(pieces - 1 - n, pieces) + exit.message_s;
  }
  if (enters && leaves) out.cost[kBoth][inner] = entry.message_s + seconds(0, pieces) + exit.message_s;
  return out;
}

// Least cost of covering n inner pieces and the ends given, over some of the units: at [ends * width + n].
using Table = std::vector<double>;

void add_unit(const Table& before, const UnitCosts& costs, Table& after, size_t width) {
  after = before;
  for (size_t have = 0; have < 4; ++have)
    for (size_t add = 0; add < 4; ++add) {
      if ((have & add) != 0) continue;
      for (size_t count = 0; count < width; ++count) {
        const double cost = costs.cost[add][count];
        if (!(cost < kNever)) continue;
        const double* from = before.data() + have * width;
        double* to = after.data() + (have | add) * width + count;
        for (size_t n = 0; n + count < width; ++n) to[n] = std::min(to[n], from[n] + cost);
      }
    }
}

// Least cost of the whole chain with one stage of `costs` and the rest from the two tables.
double with_unit(const Table& a, const Table& b, const UnitCosts& costs, size_t width) {
  Table rest(4 * width, kNever);
  for (size_t x = 0; x < 4; ++x)
    for (size_t y = 0; y < 4; ++y) {
      if ((x & y) != 0) continue;
      for (size_t i = 0; i < width; ++i) {
        if (!(a[x * width + i] < kNever)) continue;
        double* to = rest.data() + (x | y) * width + i;
        for (size_t n = 0; n + i < width; ++n) to[n] = std::min(to[n], a[x * width + i] + b[y * width + n]);
      }
    }
  double best = kNever;
  for (size_t add = 0; add < 4; ++add)
    for (size_t n = 0; n < width; ++n)
      best = std::min(best, costs.cost[add][n] + rest[(kBoth ^ add) * width + width - 1 - n]);
  return best;
}

// A chain of one piece has no ends apart.
LatencyBound bound_one_piece(const Problem& problem, std::span<const size_t> units, double cap_s) {
  LatencyBound bound;
  for (size_t unit : units) {
    const Problem::Hop &entry = problem.entry(unit), &exit = problem.exit(unit);
    const double s = problem.units()[unit].seconds(0, 1);
    const bool ok = problem.fits(unit, 0, 1) && std::max({s, entry.busy_s, exit.busy_s}) <= cap_s;
    bound.with_s.push_back(ok ? entry.message_s + s + exit.message_s : kNever);
    if (bound.with_s.back() < bound.seconds) bound.seconds = bound.with_s.back(), bound.chosen = {unit};
  }
  return bound;
}

// Walks the tables back to the units they used.
std::vector<size_t> chosen_units(const std::vector<Table>& tables, const std::vector<UnitCosts>& costs,
                                 std::span<const size_t> units, size_t width) {
  std::vector<size_t> chosen;
  size_t first = SIZE_MAX, last = SIZE_MAX;
  size_t ends = kBoth, n = width - 1;
  for (size_t i = units.size(); i-- > 0;) {
    const double value = tables[i + 1][ends * width + n];
    if (tables[i][ends * width + n] == value) continue;
    bool found = false;
    for (size_t add = 0; add < 4 && !found; ++add) {
      if ((ends & add) != add) continue;
      for (size_t count = 0; count <= n && !found; ++count)
        if (tables[i][(ends ^ add) * width + n - count] + costs[i].cost[add][count] == value) {
          if (add & kFirst)
            first = units[i];
          else if (add & kLast)
            last = units[i];
          else
            chosen.push_back(units[i]);
          ends ^= add;
          n -= count;
          found = true;
        }
    }
  }
  if (first != SIZE_MAX) chosen.insert(chosen.begin(), first);
  if (last != SIZE_MAX) chosen.push_back(last);
  return chosen;
}

}  // namespace

LatencyBound bound_latency(const Problem& problem, std::span<const size_t> units, double cap_s,
                           bool with_each) {
  if (problem.pieces() == 1) return bound_one_piece(problem, units, cap_s);
  const size_t width = problem.pieces() - 1;  // 0 .. pieces - 2 inner pieces
  std::vector<UnitCosts> costs;
  std::vector<Table> forward(units.size() + 1);
  forward[0].assign(4 * width, kNever);
  forward[0][0] = 0;
  for (size_t i = 0; i < units.size(); ++i) {
    costs.push_back(unit_costs(problem, units, units[i], cap_s));
    add_unit(forward[i], costs[i], forward[i + 1], width);
  }
  LatencyBound bound;
  bound.seconds = forward.back()[kBoth * width + width - 1];
  if (bound.seconds < kNever) bound.chosen = chosen_units(forward, costs, units, width);
  if (!with_each) return bound;
  bound.with_s.resize(units.size());
  Table behind = forward[0], next;
  for (size_t i = units.size(); i-- > 0;) {
    bound.with_s[i] = with_unit(forward[i], behind, costs[i], width);
    add_unit(behind, costs[i], next, width);
    behind.swap(next);
  }
  return bound;
}

bool may_reach_cap(const Problem& problem, std::span<const size_t> units, double cap_s) {
  const size_t pieces = problem.pieces();
  if (pieces == 1) return bound_one_piece(problem, units, cap_s).seconds < kNever;
  // Most inner pieces covered, by ends covered; -1: not possible.
  std::vector<ptrdiff_t> most = {0, -1, -1, -1};
  const auto needed = static_cast<ptrdiff_t>(pieces - 2);
  for (size_t index : units) {
    const Unit& unit = problem.units()[index];
    const bool reachable = cheapest_way_in(problem, units, index, cap_s) < kNever;
    const bool enters = problem.entry(index).busy_s <= cap_s, leaves = problem.exit(index).busy_s <= cap_s;
    const auto ok = [&](size_t begin, size_t end) {
      return problem.fits(index, begin, end) && unit.seconds(begin, end) <= cap_s;
    };
    ptrdiff_t take[4] = {-1, -1, -1, -1};
    if (reachable) {
      for (size_t begin = 1, end = 1; begin < pieces - 1; ++begin) {
        end = std::max(end, begin);
        while (end < pieces - 1 && ok(begin, end + 1)) ++end;
        if (end > begin) take[kInner] = std::max(take[kInner], static_cast<ptrdiff_t>(end - begin));
      }
      size_t begin = pieces;
      while (begin > 1 && ok(begin - 1, pieces)) --begin;
      if (leaves) take[kLast] = static_cast<ptrdiff_t>(pieces - begin) - 1;
    }
    size_t end = 0;
    while (end < pieces - 1 && ok(0, end + 1)) ++end;
    if (enters) take[kFirst] = static_cast<ptrdiff_t>(end) - 1;
    if (enters && leaves && ok(0, pieces)) return true;
    std::vector<ptrdiff_t> next = most;
    for (size_t have = 0; have < 4; ++have)
      for (size_t add = 0; add < 3; ++add)
        if ((have & add) == 0 && most[have] >= 0 && take[add] >= 0)
          next[have | add] = std::max(next[have | add], std::min(most[have] + take[add], needed));
    most = std::move(next);
  }
  return most[kBoth] >= needed;
}

std::vector<double> cap_candidates(const Problem& problem, std::span<const size_t> units, double low,
                                   double high) {
  std::vector<double> caps;
  const auto offer = [&](double s) {
    if (s >= low && s <= high) caps.push_back(s);
  };
  for (size_t index : units) {
    const Unit& unit = problem.units()[index];
    for (size_t begin = 0; begin < problem.pieces(); ++begin) {
      // Seconds rise with the end: only the part of the row between the limits is walked.
      const auto from = std::lower_bound(unit.time_sum.begin() + static_cast<ptrdiff_t>(begin) + 1,
                                         unit.time_sum.end(), low + unit.time_sum[begin] - 1e-12 * high);
      for (auto it = from; it != unit.time_sum.end(); ++it) {
        const double s = *it - unit.time_sum[begin];
        if (s > high) break;
        offer(s);
      }
    }
    offer(problem.entry(index).busy_s);
    offer(problem.exit(index).busy_s);
    for (size_t cls = 0; cls < problem.cut_classes(); ++cls)
      for (size_t to : units)
        if (to != index) offer(problem.hop(cls, index, to).busy_s);
  }
  std::sort(caps.begin(), caps.end());
  // Equal blocks at different places of the chain differ in the last digits of their sums: the largest stands
  // for all.
  std::vector<double> apart;
  for (double cap : caps) {
    if (!apart.empty() && cap <= apart.back() * (1 + 1e-12))
      apart.back() = cap;
    else
      apart.push_back(cap);
  }
  return apart;
}

double sharing_bound(const Problem& problem) {
  const PlanOptions& options = problem.options();
  const size_t most = std::clamp<size_t>(options.group_size_max, 1, problem.nodes());
  const auto alone_s = [&](size_t node, size_t piece) {
    const double overhead_s = problem.cluster().nodes[node].piece_overhead_s * (1 + options.prefill_weight);
    return std::max(problem.units()[node].seconds(piece, piece + 1) - overhead_s, 1e-300);
  };
  double latency = 0;
  std::vector<double> speeds(problem.nodes());
  for (size_t piece = 0; piece < problem.pieces(); ++piece) {
    for (size_t node = 0; node < problem.nodes(); ++node) speeds[node] = 1 / alone_s(node, piece);
    std::sort(speeds.begin(), speeds.end(), std::greater<>());
    latency += 1 / std::accumulate(speeds.begin(), speeds.begin() + static_cast<ptrdiff_t>(most), 0.0);
  }
  if (options.objective == Objective::kLatency) return latency;
  // Let piece p be worth w[p]. In a step of T seconds node i does work worth T x max over p of w[p] / t[i][p]
  // at most, and all of it has to be done. Worth here: what the first node takes.
  double worth = 0, pace = 0;
  for (size_t piece = 0; piece < problem.pieces(); ++piece) worth += alone_s(0, piece);
  for (size_t node = 0; node < problem.nodes(); ++node) {
    double best = 0;
    for (size_t piece = 0; piece < problem.pieces(); ++piece)
      best = std::max(best, alone_s(0, piece) / alone_s(node, piece));
    pace += best;
  }
  const double step = worth / pace;
  if (options.batches_in_flight == 0) return step;
  return std::max(static_cast<double>(options.batches_in_flight) * step, latency);
}

double lower_bound(const Problem& problem) {
  std::vector<size_t> units(problem.nodes());
  for (size_t i = 0; i < units.size(); ++i) units[i] = i;
  const PlanOptions& options = problem.options();
  const double latency = bound_latency(problem, units, kNever, false).seconds;
  if (options.objective == Objective::kLatency || !(latency < kNever)) return latency;
  if (latency > options.latency_limit_s * (1 + 1e-9)) return kNever;
  const std::vector<double> caps = cap_candidates(problem, units, 0, kNever);
  const auto it = std::partition_point(caps.begin(), caps.end(),
                                       [&](double cap) { return !may_reach_cap(problem, units, cap); });
  if (it == caps.end()) return kNever;
  if (options.batches_in_flight == 0) return *it;
  return std::max(static_cast<double>(options.batches_in_flight) * *it, latency);
}

}  // namespace butterfly::cluster
