// The numbers of a transformer, read and checked from a model file.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "kernels/attention/rope.h"
#include "model/cache/layer_state.h"
#include "model/formats/model_file.h"

namespace butterfly::model {

struct ModelConfig {
  std::string architecture;
  size_t layers = 0;
  size_t dim = 0;  // columns of the residual stream
  size_t heads = 0;
  size_t kv_heads = 0;
  size_t head_dim = 0;
  size_t ff = 0;  // columns inside the feed-forward part: of the widest layer
  // Of each block, where files list them: KV heads, of which none may be wanted, and columns of the
  // feed-forward part.
  std::vector<size_t> layer_kv_heads, layer_ff;
  size_t layer_input_cols = 0;  // each block reads so many of its own besides the residual stream; 0: none
  size_t vocab = 0;
  size_t context = 0;      // positions the model was trained for
  size_t run_context = 0;  // positions this run will use: some models rotate by other angles in long contexts
  size_t positions_max = 0;  // with learned positions: how many there are; 0: no such bound
  float norm_eps = 1e-5f;
  kernels::RopeParams rope;
  std::vector<LayerState> states;        // of each block, as its architecture says
  std::optional<LayerState> predicting;  // of the block that predicts ahead, where that is run: predictor.h

  // Values of a row on its way from stage to stage: the residual stream, and what all blocks read besides.
  size_t row_cols() const { return dim + layer_input_cols * layers; }
};

// Reads "<arch>.block_count" and its like. Throws Error naming file, key, expected and found.
// `run_context` 0: the model's own.
ModelConfig read_config(const ModelFile& file, size_t run_context = 0);

}  // namespace butterfly::model
