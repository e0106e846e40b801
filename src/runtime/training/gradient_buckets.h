// Parts of shards in which sums of gradients go between members, and the sums of those that a member owns.
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "cluster/training/train_plan.h"
#include "train/optim/parameter_layout.h"
#include "train/trainer/gradient_tree.h"

namespace butterfly::runtime {

inline train::Shard shard_of(const cluster::OwnedShard& owned) { return {owned.begin, owned.end}; }

// Neighbouring blocks of at least so many bytes of floats, counted from the end of the shard, where the
// backward pass begins; only the first may have fewer. Those who send and those who receive know them from
// the layout, the shard and a setting of the run.
std::vector<train::Shard> cut_buckets(const train::ParameterLayout& layout, const train::Shard& shard,
                                      size_t bytes);

struct OwnedBucket {
  train::Shard blocks;
  cluster::TrainMemberId owner = 0;
  size_t index = 0;  // among those of its owner
};
// Of all shards of a plan, in the order of blocks.
std::vector<OwnedBucket> buckets_of(const train::ParameterLayout& layout, const cluster::TrainPlan& plan,
                                    size_t bytes);

// A tree for each bucket of the own shard. The list does not change; trees take sums from any thread.
class BucketSums {
 public:
  BucketSums(const train::ParameterLayout& layout, std::vector<train::Shard> buckets);
  void begin(size_t leaves);
  const std::vector<train::Shard>& buckets() const { return buckets_; }
  // buckets().size(): there is none of these blocks.
  size_t find(const train::Shard& blocks) const;
  train::GradientTree& tree(size_t bucket) { return *trees_[bucket]; }

 private:
  std::vector<train::Shard> buckets_;
  std::vector<std::unique_ptr<train::GradientTree>> trees_;
};

}  // namespace butterfly::runtime
