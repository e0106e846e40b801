#include "train/networks/lora_transformer.h"

#include "base/thread_pool.h"
#include "model/arch/weights.h"

namespace butterfly::train {
namespace {

model::Adapter learning(model::Adapter adapter) {
  adapter.learns = true;
  return adapter;
}

}  // namespace

LoraTransformer::LoraTransformer(const model::ModelFile& base, model::Adapter adapter,
                                 const TransformerOptions& options, float adapter_dropout,
                                 float preference_beta)
    : base_(base),
      config_(model::read_config(base)),
      adapter_(learning(std::move(adapter))),
      options_(options),
      adapter_dropout_(adapter_dropout),
      preference_beta_(preference_beta) {
  check_length(options, config_);
  ThreadPool pool;
  model::WeightLoader weights(base_, pool, {}, {&adapter_, 1});
  network_ = model::architecture_of(base_).load(config_, weights, {0, config_.layers});
  weights.check_adapters_used();
  frozen_bytes_ = weights.resident_bytes();
  for (const model::LoraPair& pair : adapter_.pairs) {
    weights_.emplace(pair.target + ".lora_a", pair.a);
    weights_.emplace(pair.target + ".lora_b", pair.b);
  }
}

BuiltNetwork LoraTransformer::build(graph::Graph& graph, size_t items, bool training) const {
  return build_transformer(*network_, graph,
                           {.sequences = preference_beta_ > 0 ? 2 * items : items,
                            .length = options_.length,
                            .dropout = training ? options_.dropout : 0,
                            .adapter_dropout = training ? adapter_dropout_ : 0,
                            .gradients = training,
                            .preference_beta = preference_beta_});
}

}  // namespace butterfly::train
