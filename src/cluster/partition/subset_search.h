// The best plan over all subsets, orders and cuts: dynamic programming over (nodes used, last unit, pieces
// done).
//
// best(S, u, k): least latency of pieces [0, k) on exactly the nodes S with u as the last unit. A stage of u
// over [j, k) follows best(S - u, p, j) for some p. The time of a stage is a difference of prefix sums, so
// the best j for all k is one sliding minimum: O(2^n n (n + 1) m) steps and O(2^n n m) numbers in all.
#pragma once
#include <vector>

#include "cluster/cost/problem.h"

namespace butterfly::cluster {

// Nodes the search takes: 2^14 subsets of 14 nodes and 100 pieces are 90 MB.
inline constexpr size_t kSubsetNodesMax = 14;

struct SubsetResult {
  double latency_s = kNever;  // kNever: there is no plan
  Plan plan;
  std::vector<double> latency_with_s;  // by node of the cluster: the least of plans that use it
};

// Borrows the problem. Reuses its memory from run to run. One thread.
class SubsetSearch {
 public:
  // Only these units are used; together they have at most kSubsetNodesMax nodes.
  SubsetSearch(const Problem& problem, std::vector<size_t> units);

  // The plan with the least latency among those whose stages and links take at most cap_s.
  SubsetResult run(double cap_s = kNever);

 private:
  struct State {
    uint32_t unit;  // index into units_
    size_t at;      // of its row in best_
  };
  // Neighbouring cuts that cost the same: one run for most models.
  struct CutRun {
    size_t begin, end, cut_class;
  };
  void fill(uint32_t mask, uint32_t state, double cap_s);
  Plan trace(uint32_t mask, size_t state, double cap_s) const;
  double* row(size_t at) { return best_.data() + at * width_; }
  const double* row(size_t at) const { return best_.data() + at * width_; }

  const Problem& problem_;
  std::vector<size_t> units_;
  std::vector<uint32_t> masks_;  // by unit: its nodes as bits
  std::vector<size_t> node_of_bit_;
  std::vector<CutRun> runs_;
  std::vector<std::vector<uint32_t>> reach_;
  std::vector<uint32_t> first_;  // [2^n + 1]: where a subset's states begin
  std::vector<State> states_;
  std::vector<char> alive_;  // by state: some number of pieces can be reached
  size_t width_;
  std::vector<double> best_, start_;
  std::vector<uint32_t> queue_;
};

}  // namespace butterfly::cluster
