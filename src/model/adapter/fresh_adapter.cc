#include "model/adapter/fresh_adapter.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/random_stream.h"
#include "base/rng.h"
#include "model/adapter/adapter_modules.h"

namespace butterfly::model {

Adapter fresh_adapter(const ModelFile& base, const FreshAdapterOptions& options) {
  Adapter adapter{.path = "fresh adapter", .alpha = options.alpha, .by_root = options.by_root, .pairs = {}};
  for (const std::string& name : adapter_targets(base, options.modules, options.takes)) {
    // A head without a matrix of its own reads the embedding's.
    const std::string stored(name == kHeadTensor && !base.has(name) ? kEmbeddingTensor : name);
    const Shape& shape = base.find(stored)->shape;
    const int64_t out = shape[shape.rank() - 2], in = shape.back(), rank = static_cast<int64_t>(options.rank);
    if (rank < 1 || rank > std::min(out, in))
      fail(Errc::kInvalidArgument, "lora_r: expected 1 to {}, the smaller side of {} {}, found {}",
           std::min(out, in), name, shape.to_string(), rank);
    const auto zeros = [&](int64_t rows, int64_t cols) {
      return Tensor::zeros(DType::kF32, shape.rank() == 3 ? Shape{shape[0], rows, cols} : Shape{rows, cols});
    };
    LoraPair pair{.target = name, .a = zeros(rank, in), .b = zeros(out, rank)};
    const float bound = 1.0f / std::sqrt(static_cast<float>(in));
    const uint64_t stream = random_stream(name);
    for (int64_t i = 0; i < pair.a.count(); ++i)
      pair.a.data<float>()[i] =
          bound * (2 * random_uniform(options.seed, stream, static_cast<uint64_t>(i)) - 1);
    adapter.pairs.push_back(std::move(pair));
  }
  std::sort(adapter.pairs.begin(), adapter.pairs.end(),
            [](const LoraPair& a, const LoraPair& b) { return a.target < b.target; });
  return adapter;
}

}  // namespace butterfly::model
