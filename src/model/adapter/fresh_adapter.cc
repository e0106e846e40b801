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
  for (const std::string& name : adapter_targets(base, options.modules)) {
    const Shape& shape = base.find(name)->shape;
    const int64_t out = shape[0], in = shape[1], rank = static_cast<int64_t>(options.rank);
    if (rank < 1 || rank > std::min(out, in))
      fail(Errc::kInvalidArgument, "lora_r: expected 1 to {}, the smaller side of {} {}, found {}",
           std::min(out, in), name, shape.to_string(), rank);
    LoraPair pair{.target = name,
                  .a = Tensor::zeros(DType::kF32, {rank, in}),
                  .b = Tensor::zeros(DType::kF32, {out, rank})};
    const float bound = 1.0f / std::sqrt(static_cast<float>(in));
    const uint64_t stream = random_stream(name);
    for (int64_t i = 0; i < rank * in; ++i)
      pair.a.data<float>()[i] =
          bound * (2 * random_uniform(options.seed, stream, static_cast<uint64_t>(i)) - 1);
    adapter.pairs.push_back(std::move(pair));
  }
  std::sort(adapter.pairs.begin(), adapter.pairs.end(),
            [](const LoraPair& a, const LoraPair& b) { return a.target < b.target; });
  return adapter;
}

}  // namespace butterfly::model
