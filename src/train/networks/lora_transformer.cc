#include "train/networks/lora_transformer.h"

#include "base/thread_pool.h"

namespace butterfly::train {
namespace {

// Of the matrices that are here: all, or those of a stage.
model::Adapter learning(model::Adapter adapter, const model::ModelFile& base, size_t layers,
                        const std::optional<model::LayerRange>& range) {
  adapter.learns = true;
  if (range)
    std::erase_if(adapter.pairs, [&](const model::LoraPair& pair) {
      return !model::range_needs(*range, layers, base, pair.target);
    });
  return adapter;
}

}  // namespace

LoraTransformer::LoraTransformer(const model::ModelFile& base, model::Adapter adapter,
                                 const TransformerOptions& options, float adapter_dropout,
                                 float preference_beta, model::PackedWeights* packed)
    : base_(base),
      config_(model::read_config(base)),
      adapter_(learning(std::move(adapter), base, config_.layers, options.range)),
      options_(options),
      adapter_dropout_(adapter_dropout),
      preference_beta_(preference_beta) {
  check_length(options, config_);
  ThreadPool pool;
  model::WeightLoader weights(base_, pool, {}, {&adapter_, 1});
  if (packed != nullptr) weights.share(*packed);
  const model::LayerRange range = options.range.value_or(model::LayerRange{0, config_.layers});
  model::check_range(range, config_.layers);
  network_ = model::architecture_of(base_).load(config_, weights, range);
  weights.check_adapters_used();
  frozen_bytes_ = weights.resident_bytes();
  for (const model::LoraPair& pair : adapter_.pairs) {
    weights_.emplace(pair.target + ".lora_a", pair.a);
    weights_.emplace(pair.target + ".lora_b", pair.b);
  }
}

BuiltNetwork LoraTransformer::build_shorter(graph::Graph& graph, size_t items, bool training,
                                            size_t length) const {
  return build_transformer(*network_, graph,
                           {.sequences = preference_beta_ > 0 ? 2 * items : items,
                            .length = length,
                            .dropout = training ? options_.dropout : 0,
                            .adapter_dropout = training ? adapter_dropout_ : 0,
                            .gradients = training,
                            .preference_beta = preference_beta_});
}

}  // namespace butterfly::train
