// A transformer whose weights stay as the file has them, packed and quantised; only an adapter beside them
// learns. The product B A is never formed.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "model/adapter/adapter.h"
#include "model/arch/network.h"
#include "model/arch/weights.h"
#include "train/networks/transformer.h"

namespace butterfly::train {

// Owns the adapter's matrices, which the trainer changes in place, and the packed weights; shares the mapped
// file. Building graphs is for any thread; training for one.
class LoraTransformer : public TrainableNetwork {
 public:
  // The adapter's memory becomes the network's; of a stage (TransformerOptions::range) what belongs to its
  // layers. `preference_beta` above 0: an item is a pair of answers, the better one first, and preferring it
  // is learned (TrainingShape). Throws Error kUnsupported naming a matrix that no layer takes an adapter for.
  // `packed`: matrices of the base that are in memory already, as WeightLoader::share() takes them; null:
  // none are.
  LoraTransformer(const model::ModelFile& base, model::Adapter adapter, const TransformerOptions& options,
                  float adapter_dropout, float preference_beta = 0, model::PackedWeights* packed = nullptr);

  BuiltNetwork build(graph::Graph& graph, size_t items, bool training) const override {
    return build_shorter(graph, items, training, options_.length);
  }
  size_t length_unit() const override {
    return options_.dropout > 0 || adapter_dropout_ > 0 ? 0 : kLengthUnit;
  }
  BuiltNetwork build_shorter(graph::Graph& graph, size_t items, bool training, size_t length) const override;
  // The adapter's alone: "blk.0.attn_q.weight.lora_a".
  const std::map<std::string, Tensor>& weights() const override { return weights_; }
  uint64_t frozen_bytes() const override { return frozen_bytes_; }
  const model::ModelConfig& config() const { return config_; }
  const model::Adapter& adapter() const { return adapter_; }
  const model::ModelFile& base() const { return base_; }
  const model::Network& network() const { return *network_; }

 private:
  model::ModelFile base_;
  model::ModelConfig config_;
  model::Adapter adapter_;
  TransformerOptions options_;
  float adapter_dropout_, preference_beta_;
  std::map<std::string, Tensor> weights_;
  uint64_t frozen_bytes_ = 0;
  std::unique_ptr<model::Network> network_;
};

}  // namespace butterfly::train
