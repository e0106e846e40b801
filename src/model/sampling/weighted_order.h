// Finds where a sum of weights is reached in a row of logits in order (logit down, id up), without sorting
// the row.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/sampling/logit_scan.h"

namespace butterfly::model {

// Sorting 150,000 tokens takes ten milliseconds, and two passes over them a tenth of one. Weights are counted
// in whole units, so whatever way leads to a place, it is the place that sorting everything and walking along
// would find.
//
// The largest few (some per block) are kept in a list: rows of trained models have what matters in it. In
// flat rows a sample guesses a range of logits; the units above it are summed exactly, and only what lies
// inside is looked at one by one. A wrong guess costs another pass.
class WeightedOrder {
 public:
  // Borrows `scan`, which has read a row, until the next call.
  void read(const LogitScan& scan);

  // Only what is not below `least` will be asked for from now on.
  void keep_front(float least);

  // Units of all that are not below `least`.
  uint64_t sum_units(float least, kernels::WeightScale scale) const;

  struct Place {
    float logit = 0;
    int32_t id = 0;
    uint64_t equals_behind = 0;  // tokens with the same logit behind it in order
    uint64_t units = 0;          // up to it, its own included
  };
  // The first place up to which there are `need` units. `units` are those of all that are not below `least`;
  // `need` is from 1 to `units`.
  Place find(uint64_t need, kernels::WeightScale scale, float least, uint64_t units);

 private:
  // Where a place is known to be: among those with least <= logit < below. `before` are the units of all that
  // are not below `below`, `units` those of all that are not below `least`.
  struct Bounds {
    float least, below;
    uint64_t before, units;
  };
  struct Range {
    float least, below;
    bool top_is_smaller;  // fewer tokens from `least` up than from `below` down
  };
  template <typename Collect>
  void narrow(const Collect& collect, std::span<const float> sample, uint64_t need,
              kernels::WeightScale scale, Bounds& bounds, LogitList& to);
  std::optional<Range> guess(std::span<const float> sample, const Bounds& bounds, double share,
                             kernels::WeightScale scale);
  Place find_in(const LogitList& list, uint64_t need, uint64_t before, kernels::WeightScale scale);
  Place walk(const LogitList& list, uint64_t need, uint64_t before);
  std::span<const float> row_sample();

  const LogitScan* scan_ = nullptr;
  LogitList head_;  // all that are not below head_least_
  float head_least_ = 0;
  std::vector<float> row_sample_;  // empty: not taken yet
  // Scratch.
  std::vector<float> maxima_, sample_, weights_;
  std::vector<uint64_t> buckets_;  // units by range of logits
  std::vector<double> shares_;     // the same of a sample
  std::vector<Candidate> few_;
  LogitList lists_[2], side_, in_range_;
};

}  // namespace butterfly::model
