#include "cluster/partition/subset_search.h"

#include <algorithm>

#include "base/check.h"
#include "cluster/partition/stage_window.h"

namespace butterfly::cluster {

SubsetSearch::SubsetSearch(const Problem& problem, std::vector<size_t> units)
    : problem_(problem), units_(std::move(units)), width_(problem.pieces() + 1) {
  for (size_t unit : units_) {
    uint32_t mask = 0;
    for (size_t node : problem_.units()[unit].nodes) {
      auto it = std::find(node_of_bit_.begin(), node_of_bit_.end(), node);
      mask |= uint32_t{1} << (it - node_of_bit_.begin());
      if (it == node_of_bit_.end()) node_of_bit_.push_back(node);
    }
    masks_.push_back(mask);
  }
  BF_CHECK(node_of_bit_.size() <= kSubsetNodesMax) << node_of_bit_.size() << " nodes";
  for (uint32_t mask = 0; mask < uint32_t{1} << node_of_bit_.size(); ++mask) {
    first_.push_back(static_cast<uint32_t>(states_.size()));
    for (uint32_t u = 0; u < units_.size(); ++u)
      if ((masks_[u] & mask) == masks_[u]) states_.push_back({u, states_.size()});
  }
  first_.push_back(static_cast<uint32_t>(states_.size()));
  for (size_t cut = 1; cut < problem_.pieces(); ++cut) {
    if (runs_.empty() || runs_.back().cut_class != problem_.cut_class(cut))
      runs_.push_back({cut, cut, problem_.cut_class(cut)});
    runs_.back().end = cut + 1;
  }
  best_.resize(states_.size() * width_);
  alive_.resize(states_.size());
  start_.resize(width_);
  queue_.resize(width_);
}

void SubsetSearch::fill(uint32_t mask, uint32_t index, double cap_s) {
  const State& state = states_[index];
  const size_t unit = units_[state.unit];
  const uint32_t before = mask ^ masks_[state.unit];
  std::fill(start_.begin(), start_.end(), kNever);
  if (before == 0) {
    if (problem_.entry(unit).busy_s <= cap_s) start_[0] = problem_.entry(unit).message_s;
  }
  const size_t pieces = problem_.pieces();
  bool any = before == 0 && start_[0] < kNever;
  for (uint32_t s = first_[before]; s < first_[before + 1]; ++s) {
    if (!alive_[s]) continue;
    any = true;
    const double* from = row(states_[s].at);
    const size_t previous = units_[states_[s].unit];
    for (const CutRun& run : runs_) {
      const Problem::Hop hop = problem_.hop(run.cut_class, previous, unit);
      if (hop.busy_s > cap_s) continue;
      for (size_t j = run.begin; j < run.end; ++j) start_[j] = std::min(start_[j], from[j] + hop.message_s);
    }
  }
  alive_[index] = any;
  if (!any) return;
  close_stage(problem_.units()[unit], reach_[state.unit].data(), start_.data(), row(state.at), pieces,
              queue_.data());
}

SubsetResult SubsetSearch::run(double cap_s) {
  reach_.clear();
  for (size_t unit : units_) reach_.push_back(stage_reach(problem_, problem_.units()[unit], cap_s));
  SubsetResult result;
  result.latency_with_s.assign(problem_.nodes(), kNever);
  uint32_t best_mask = 0;
  size_t best_state = 0;
  for (uint32_t mask = 1; mask + 1 < first_.size(); ++mask)
    for (uint32_t s = first_[mask]; s < first_[mask + 1]; ++s) {
      fill(mask, s, cap_s);
      if (!alive_[s]) continue;
      // A chain that is complete goes nowhere; one that has reached nothing neither.
      const double* reached = row(states_[s].at);
      alive_[s] = std::any_of(reached + 1, reached + problem_.pieces(), [](double v) { return v < kNever; });
      const Problem::Hop& exit = problem_.exit(units_[states_[s].unit]);
      const double total = row(states_[s].at)[problem_.pieces()] + exit.message_s;
      if (!(total < kNever) || exit.busy_s > cap_s) continue;
      for (size_t bit = 0; bit < node_of_bit_.size(); ++bit)
        if (mask >> bit & 1)
          result.latency_with_s[node_of_bit_[bit]] =
              std::min(result.latency_with_s[node_of_bit_[bit]], total);
      if (total < result.latency_s) {
        result.latency_s = total;
        best_mask = mask;
        best_state = s;
      }
    }
  if (result.latency_s < kNever) result.plan = trace(best_mask, best_state, cap_s);
  return result;
}

// Walks back: the same sums in the same order as fill(), so the equal one is found.
Plan SubsetSearch::trace(uint32_t mask, size_t s, double cap_s) const {
  Plan plan;
  size_t end = problem_.pieces();
  while (end > 0) {
    const State& state = states_[s];
    const Unit& unit = problem_.units()[units_[state.unit]];
    const uint32_t before = mask ^ masks_[state.unit];
    double best = kNever;
    size_t best_begin = 0, best_previous = 0;
    const auto offer = [&](double start, size_t begin, size_t previous) {
      if (reach_[state.unit][begin] < end) return;
      const double value = start + unit.seconds(begin, end);
      if (value < best) best = value, best_begin = begin, best_previous = previous;
    };
    if (before == 0) offer(problem_.entry(units_[state.unit]).message_s, 0, 0);
    for (uint32_t p = first_[before]; p < first_[before + 1]; ++p)
      for (size_t j = 1; alive_[p] && j < end; ++j) {
        const Problem::Hop& hop = problem_.hop_at(j, units_[states_[p].unit], units_[state.unit]);
        if (hop.busy_s <= cap_s) offer(row(states_[p].at)[j] + hop.message_s, j, p);
      }
    BF_CHECK(best < kNever) << "no way back from piece " << end;
    plan.stages.push_back({unit.nodes, best_begin, end, unit.shares});
    end = best_begin;
    mask = before;
    s = best_previous;
  }
  std::reverse(plan.stages.begin(), plan.stages.end());
  return plan;
}

}  // namespace butterfly::cluster
