#include "runtime/training/gradient_buckets.h"

#include <algorithm>

namespace butterfly::runtime {

std::vector<train::Shard> cut_buckets(const train::ParameterLayout& layout, const train::Shard& shard,
                                      size_t bytes) {
  std::vector<train::Shard> buckets;
  size_t end = shard.end, sum = 0;
  for (size_t at = shard.end; at-- > shard.begin;) {
    sum += layout.blocks()[at].count * sizeof(float);
    if (sum < bytes && at > shard.begin) continue;
    buckets.push_back({at, end});
    end = at;
    sum = 0;
  }
  std::ranges::reverse(buckets);
  return buckets;
}

std::vector<OwnedBucket> buckets_of(const train::ParameterLayout& layout, const cluster::TrainPlan& plan,
                                    size_t bytes) {
  std::vector<OwnedBucket> all;
  for (const cluster::OwnedShard& owned : plan.shards) {
    const std::vector<train::Shard> buckets = cut_buckets(layout, shard_of(owned), bytes);
    for (size_t i = 0; i < buckets.size(); ++i) all.push_back({buckets[i], owned.owner, i});
  }
  return all;
}

BucketSums::BucketSums(const train::ParameterLayout& layout, std::vector<train::Shard> buckets)
    : buckets_(std::move(buckets)) {
  for (const train::Shard& bucket : buckets_)
    trees_.push_back(std::make_unique<train::GradientTree>(layout.shard_floats(bucket)));
}

void BucketSums::begin(size_t leaves) {
  for (const auto& tree : trees_) tree->begin(leaves);
}

size_t BucketSums::find(const train::Shard& blocks) const {
  return static_cast<size_t>(std::ranges::find(buckets_, blocks) - buckets_.begin());
}

}  // namespace butterfly::runtime
