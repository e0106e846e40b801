#include "model/adapter/merge.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/gemm/gemm.h"
#include "kernels/quant/quant.h"

namespace butterfly::model {
namespace {

void check_pair(const Adapter& adapter, const LoraPair& pair, const ModelFile& base) {
  const NamedTensor* tensor = base.find(pair.target);
  if (tensor == nullptr)
    fail(Errc::kUnsupported, "{}: changes {}, which {} does not have{}", adapter.path.string(), pair.target,
         base.path().string(),
         pair.target == "output.weight" ? ": its output layer is the embedding's matrix" : "");
  const bool rows = pair.target == kEmbeddingTensor;
  const int64_t out = rows ? pair.a.size(0) : pair.b.size(0), in = rows ? pair.b.size(0) : pair.a.size(1);
  if (tensor->shape.rank() != 2 || tensor->shape[0] != out || tensor->shape[1] != in)
    fail(Errc::kInvalidArgument, "{}: {}: changes a matrix of shape [{}, {}], {} has {}",
         adapter.path.string(), pair.target, out, in, base.path().string(), tensor->shape.to_string());
}

// B A, or A B^T for the embedding, whose A has a row for each token.
void product(const LoraPair& pair, size_t out, size_t in, float* to, ThreadPool& pool) {
  const auto rank = static_cast<size_t>(pair.rank());
  const bool rows = pair.target == kEmbeddingTensor;
  kernels::gemm({.m = out,
                 .n = in,
                 .k = rank,
                 .a = {(rows ? pair.a : pair.b).data<float>(), rank},
                 .b = rows ? kernels::GemmOperand{pair.b.data<float>(), rank, true}
                           : kernels::GemmOperand{pair.a.data<float>(), in},
                 .c = to,
                 .c_stride = in},
                pool);
}

}  // namespace

ModelFile merged_model(const ModelFile& base, std::vector<Adapter> adapters, ThreadPool& pool) {
  for (const Adapter& adapter : adapters)
    for (const LoraPair& pair : adapter.pairs) check_pair(adapter, pair, base);
  const auto all = std::make_shared<const std::vector<Adapter>>(std::move(adapters));
  std::vector<NamedTensor> tensors;
  for (const NamedTensor& tensor : base.tensors()) {
    const bool changed = std::any_of(all->begin(), all->end(), [&](const Adapter& adapter) {
      return adapter.find(tensor.name) != nullptr;
    });
    if (!changed) {
      tensors.push_back(tensor);
      continue;
    }
    tensors.emplace_back(tensor.name, DType::kF32, tensor.shape, [all, base, name = tensor.name, &pool] {
      const Tensor stored = base.tensor(name);
      Tensor merged = Tensor::zeros(DType::kF32, stored.shape()),
             delta = Tensor::zeros(DType::kF32, stored.shape());
      const auto count = static_cast<size_t>(stored.count());
      const auto out = static_cast<size_t>(stored.size(0)), in = static_cast<size_t>(stored.size(1));
      MappedFile::guard(
          [&] { kernels::to_float(stored.dtype(), stored.raw(), merged.data<float>(), count); });
      base.done_with(stored);
      for (const Adapter& adapter : *all)
        if (const LoraPair* pair = adapter.find(name)) {
          product(*pair, out, in, delta.data<float>(), pool);
          kernels::add_scaled(merged.data<float>(), delta.data<float>(), adapter.scale_of(*pair),
                              merged.data<float>(), count);
        }
      return merged;
    });
  }
  return {base.format(),
          base.path(),
          base.metadata(),
          std::move(tensors),
          {base.files().begin(), base.files().end()}};
}

}  // namespace butterfly::model
