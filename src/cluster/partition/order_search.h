// The best plan for a given order of units, each used or skipped, and a search over orders for large
// clusters.
#pragma once
#include <span>
#include <vector>

#include "cluster/cost/problem.h"

namespace butterfly::cluster {

// A plan as unit indices and cuts: stage i of `units` has the pieces [cuts[i], cuts[i + 1]).
struct Candidate {
  double latency_s = kNever;
  std::vector<size_t> units;
  std::vector<size_t> cuts;
  Plan plan(const Problem& problem) const;
};

// Exact for one order: least latency over all choices of units (kept in order) and cuts, stages and links at
// most cap_s. O(n^2 m). Reuses its memory, so of one thread; borrows the problem.
class OrderSearch {
 public:
  explicit OrderSearch(const Problem& problem) : problem_(problem) {}
  void set_cap(double cap_s);  // before the first run
  Candidate run(std::span<const size_t> order);

 private:
  const Problem& problem_;
  double cap_s_ = kNever;
  std::vector<std::vector<uint32_t>> reach_;  // by unit
  std::vector<double> best_, start_;
  std::vector<uint32_t> queue_;
};

// Whether two units have a node in common: no plan has both.
bool overlap(const Unit& a, const Unit& b);

struct OrderSearchOptions {
  double cap_s = kNever;
  std::vector<size_t> units;                // candidates; groups may overlap
  std::vector<std::vector<size_t>> orders;  // to begin with: each of disjoint units
  size_t rounds = 1000;                     // changes tried after that
  double enough_s = 0;                      // stop at this latency: a bound proves there is none below
  uint64_t seed = 1;
};

// Tries the given orders, then changes the best one: moves a used unit, turns a run of units round, brings an
// unused unit in, in place of those that have nodes in common with it. Same options, same result.
Candidate search_orders(const Problem& problem, const OrderSearchOptions& options);

}  // namespace butterfly::cluster
