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
  if (const Shape changed = pair.changed(); tensor->shape != changed)
    fail(Errc::kInvalidArgument, "{}: {}: changes a matrix of shape {}, {} has {}", adapter.path.string(),
         pair.target, changed.to_string(), base.path().string(), tensor->shape.to_string());
}

// B A, of every expert; or A B^T for the embedding, whose A has a row for each token.
void product(const LoraPair& pair, float* to, ThreadPool& pool) {
  const auto rank = static_cast<size_t>(pair.rank());
  const Shape changed = pair.changed();
  const auto in = static_cast<size_t>(changed.back()), out = static_cast<size_t>(changed[changed.rank() - 2]);
  const size_t experts = pair.of_experts() ? static_cast<size_t>(changed[0]) : 1;
  const bool rows = pair.target == kEmbeddingTensor;
  for (size_t e = 0; e < experts; ++e) {
    const float *a = pair.a.data<float>() + e * rank * in, *b = pair.b.data<float>() + e * out * rank;
    kernels::gemm({.m = out,
                   .n = in,
                   .k = rank,
                   .a = {rows ? a : b, rank},
                   .b = rows ? kernels::GemmOperand{b, rank, true} : kernels::GemmOperand{a, in},
                   .c = to + e * out * in,
                   .c_stride = in},
                  pool);
  }
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
      MappedFile::guard(
          [&] { kernels::to_float(stored.dtype(), stored.raw(), merged.data<float>(), count); });
      base.done_with(stored);
      for (const Adapter& adapter : *all)
        if (const LoraPair* pair = adapter.find(name)) {
          product(*pair, delta.data<float>(), pool);
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
