#include "train/trainer/leaf_stream.h"

#include "base/check.h"

namespace butterfly::train {

LeafStream::LeafStream(const ParameterLayout& layout, std::vector<Shard> buckets, Ready ready)
    : buckets_(std::move(buckets)),
      of_parameter_(layout.size()),
      parameters_in_(buckets_.size()),
      ready_(std::move(ready)) {
  size_t at = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    BF_CHECK(buckets_[i].begin == at && buckets_[i].end > at) << "bucket " << i << " begins at block " << at;
    for (; at < buckets_[i].end; ++at) {
      std::vector<size_t>& in = of_parameter_[layout.blocks()[at].parameter];
      if (!in.empty() && in.back() == i) continue;
      in.push_back(i);
      ++parameters_in_[i];
    }
  }
  BF_CHECK(at == layout.blocks().size()) << "buckets end at block " << at;
}

}  // namespace butterfly::train
