// Transformers that learn: any architecture of model/arch, with fresh weights or those of a file.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "model/arch/network.h"
#include "model/formats/model_file.h"
#include "model/synthetic/random_model.h"
#include "train/trainer/network.h"

namespace butterfly::train {

// A model of these sizes with fresh weights, in memory: normal with `deviation` (matrices that add to the
// residual stream: divided by the square root of twice the blocks), norms 1, biases 0. A weight is a function
// of (seed, tensor name, index). `keys` are added to the metadata: the tokenizer, say. Element types in
// `sizes` are not used.
model::ModelFile untrained_model(const model::RandomModelOptions& sizes, const model::Metadata& keys,
                                 float deviation = 0.02f);

struct TransformerOptions {
  size_t length = 0;  // of a sequence; up to the model's context
  float dropout = 0;
  // Only these layers: a stage of a pipeline. A table that a head elsewhere shares does not learn here.
  std::optional<model::LayerRange> range = {};
};

// Of sequences that end early: fewer graphs than lengths, and little that is computed in vain. With dropout
// they are whole, since what is drawn depends on the place in the micro-batch.
inline constexpr size_t kLengthUnit = 32;

// Throws Error kInvalidArgument naming the model's context for sequences that do not fit it.
void check_length(const TransformerOptions& options, const model::ModelConfig& config);

// The network's training graph, with the names that the trainer knows.
BuiltNetwork build_transformer(const model::Network& network, graph::Graph& graph,
                               const model::TrainingShape& shape);

// Owns its weights as floats, which the trainer changes in place. Building graphs is for any thread; training
// for one.
class Transformer : public TrainableNetwork {
 public:
  // All weights of the file become floats that learn. Floats in memory are taken as they are, so one
  // untrained_model() serves one Transformer.
  Transformer(const model::ModelFile& file, const TransformerOptions& options);

  BuiltNetwork build(graph::Graph& graph, size_t items, bool training) const override {
    return build_shorter(graph, items, training, options_.length);
  }
  size_t length_unit() const override { return options_.dropout > 0 ? 0 : kLengthUnit; }
  BuiltNetwork build_shorter(graph::Graph& graph, size_t items, bool training, size_t length) const override;
  const std::map<std::string, Tensor>& weights() const override { return weights_; }
  const model::ModelConfig& config() const { return config_; }
  const model::ModelFile& file() const { return file_; }
  // Whether the head has no matrix of its own.
  bool tied() const { return !file_.has("output.weight"); }

  // For the file that write_gguf() makes, instead of what the model's own says.
  void set_keys(model::Metadata keys) { keys_ = std::move(keys); }
  // A GGUF file with the weights as they are now, as F32.
  void write_gguf(const std::filesystem::path& path) const;

 private:
  model::ModelFile file_;
  model::Metadata keys_;  // set_keys()
  model::ModelConfig config_;
  TransformerOptions options_;
  std::map<std::string, Tensor> weights_;
  std::unique_ptr<model::Network> network_;
};

}  // namespace butterfly::train
