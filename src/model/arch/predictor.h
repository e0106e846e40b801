// A block behind a model's last one that predicts the token after the next: multi-token prediction, NextN.
#pragma once
#include <memory>
#include <optional>

#include "model/arch/decoder.h"

namespace butterfly::model {

// Inputs and outputs of a built graph.
struct PredictorValues {
  graph::ValueId tokens;     // [rows] i32
  graph::ValueId hidden;     // [rows, dim]: behind the last norm, of the position before each row's
  graph::ValueId positions;  // [rows] i32
  graph::ValueId selected;   // [output_rows] i32, if there are any
  graph::ValueId normed;     // [output_rows, dim]: what the next prediction reads as hidden
  graph::ValueId logits;     // [output_rows, vocab]: of the token behind the row's
};

// Reads a token and what the model's layers made of the position before it, both normalised, through one
// product and one block of the model's own kind; the head is the model's, or its own. It keeps keys and
// values as any layer does.
//
// Immutable. Borrows the network whose embedding, norm and head it shares: that outlives it.
class Predictor {
 public:
  Predictor(const ModelConfig& config, WeightLoader& weights, const Decoder& trunk, const Architecture& row);

  PredictorValues build(graph::Graph& graph, size_t rows, size_t output_rows) const;
  // Of its one layer.
  const LayerState& state() const { return body_->config.states.back(); }

 private:
  const Decoder& trunk_;
  std::unique_ptr<Network> network_;  // one block without embedding and head
  const Decoder* body_;
  nn::Norm token_norm_, hidden_norm_, head_norm_;
  nn::Linear join_;
  graph::Parameter embedding_;  // empty: the model's
  nn::Linear head_;             // the same
};

// How many blocks of the file predict, and are no layers of the model.
size_t predicting_blocks(const ModelFile& file);
// Why this build does not run those of the file; empty: it does.
std::string why_not_predict(const ModelFile& file);

// What such a block keeps, where the file has one that is run.
std::optional<LayerState> predicting_state(const ModelFile& file, const ModelConfig& config);

// Null where the file has none that are run. `trunk` is the whole network, made by architecture_of(file).
std::unique_ptr<Predictor> load_predictor(const ModelConfig& config, WeightLoader& weights,
                                          const Network& trunk);

}  // namespace butterfly::model
