#include "cluster/partition/order_search.h"

#include <algorithm>

#include "base/rng.h"
#include "cluster/partition/stage_window.h"

namespace butterfly::cluster {

Plan Candidate::plan(const Problem& problem) const {
  Plan plan;
  for (size_t i = 0; i < units.size(); ++i) {
    const Unit& unit = problem.units()[units[i]];
    plan.stages.push_back({unit.nodes, cuts[i], cuts[i + 1], unit.shares});
  }
  return plan;
}

void OrderSearch::set_cap(double cap_s) {
  cap_s_ = cap_s;
  reach_.clear();
  for (const Unit& unit : problem_.units()) reach_.push_back(stage_reach(problem_, unit, cap_s));
  queue_.resize(problem_.pieces() + 1);
  start_.resize(problem_.pieces() + 1);
}

Candidate OrderSearch::run(std::span<const size_t> order) {
  const size_t pieces = problem_.pieces(), width = pieces + 1;
  if (reach_.empty()) set_cap(kNever);
  best_.resize(order.size() * width);
  Candidate chain;
  size_t last = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t unit = order[i];
    std::fill(start_.begin(), start_.end(), kNever);
    if (problem_.entry(unit).busy_s <= cap_s_) start_[0] = problem_.entry(unit).message_s;
    for (size_t p = 0; p < i; ++p) {
      const double* from = best_.data() + p * width;
      for (size_t j = 1; j < pieces;) {
        const size_t cls = problem_.cut_class(j);
        size_t end = j + 1;
        while (end < pieces && problem_.cut_class(end) == cls) ++end;
        const Problem::Hop hop = problem_.hop(cls, order[p], unit);
        if (hop.busy_s <= cap_s_)
          for (; j < end; ++j) start_[j] = std::min(start_[j], from[j] + hop.message_s);
        j = end;
      }
    }
    double* done = best_.data() + i * width;
    close_stage(problem_.units()[unit], reach_[unit].data(), start_.data(), done, pieces, queue_.data());
    const Problem::Hop& exit = problem_.exit(unit);
    if (exit.busy_s <= cap_s_ && done[pieces] + exit.message_s < chain.latency_s) {
      chain.latency_s = done[pieces] + exit.message_s;
      last = i;
    }
  }
  if (!(chain.latency_s < kNever)) return chain;

  size_t end = pieces;
  chain.cuts.push_back(end);
  while (true) {
    const size_t unit = order[last];
    const auto& sum = problem_.units()[unit].time_sum;
    chain.units.push_back(unit);
    double best = kNever;
    size_t begin = 0, previous = 0;
    if (reach_[unit][0] >= end && problem_.entry(unit).busy_s <= cap_s_)
      best = problem_.entry(unit).message_s + (sum[end] - sum[0]);
    for (size_t p = 0; p < last; ++p)
      for (size_t j = 1; j < end; ++j) {
        const Problem::Hop& hop = problem_.hop_at(j, order[p], unit);
        if (reach_[unit][j] < end || hop.busy_s > cap_s_) continue;
        const double value = best_[p * width + j] + hop.message_s + (sum[end] - sum[j]);
        if (value < best) best = value, begin = j, previous = p;
      }
    chain.cuts.push_back(begin);
    if (begin == 0) break;
    end = begin;
    last = previous;
  }
  std::reverse(chain.units.begin(), chain.units.end());
  std::reverse(chain.cuts.begin(), chain.cuts.end());
  return chain;
}

bool overlap(const Unit& a, const Unit& b) {
  return std::any_of(a.nodes.begin(), a.nodes.end(), [&](size_t node) {
    return std::find(b.nodes.begin(), b.nodes.end(), node) != b.nodes.end();
  });
}

Candidate search_orders(const Problem& problem, const OrderSearchOptions& options) {
  OrderSearch search(problem);
  search.set_cap(options.cap_s);
  Candidate best;
  for (const auto& order : options.orders) {
    Candidate chain = search.run(order);
    if (chain.latency_s < best.latency_s) best = std::move(chain);
  }
  if (!(best.latency_s < kNever)) return best;
  uint64_t draws = 0;
  const auto draw = [&](size_t below) {
    return static_cast<size_t>(random_u64(options.seed, 0, draws++) % std::max<size_t>(below, 1));
  };
  std::vector<size_t> unused, order;
  for (size_t round = 0; round < options.rounds && best.latency_s > options.enough_s; ++round) {
    order = best.units;
    unused.clear();
    for (size_t unit : options.units)
      if (std::find(order.begin(), order.end(), unit) == order.end()) unused.push_back(unit);
    const size_t kind = draw(4);
    if (kind == 0) {  // one unit to another place
      const size_t from = draw(order.size()), unit = order[from];
      order.erase(order.begin() + static_cast<ptrdiff_t>(from));
      order.insert(order.begin() + static_cast<ptrdiff_t>(draw(order.size() + 1)), unit);
    } else if (kind == 1) {  // a run turned round
      size_t a = draw(order.size()), b = draw(order.size());
      if (a > b) std::swap(a, b);
      std::reverse(order.begin() + static_cast<ptrdiff_t>(a), order.begin() + static_cast<ptrdiff_t>(b) + 1);
    } else if (kind == 2 && order.size() > 1) {  // two units change places
      std::swap(order[draw(order.size())], order[draw(order.size())]);
    }
    // A few of the others, anywhere: the exact step drops those that do not help.
    for (size_t n = std::min<size_t>(unused.size(), 3); n > 0; --n) {
      const size_t at = draw(unused.size()), unit = unused[at];
      std::erase_if(order,
                    [&](size_t other) { return overlap(problem.units()[unit], problem.units()[other]); });
      order.insert(order.begin() + static_cast<ptrdiff_t>(draw(order.size() + 1)), unit);
      unused.erase(unused.begin() + static_cast<ptrdiff_t>(at));
    }
    Candidate chain = search.run(order);
    if (chain.latency_s < best.latency_s) best = std::move(chain);
  }
  return best;
}

}  // namespace butterfly::cluster
