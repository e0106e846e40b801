// A model's layers, or a contiguous range of them, ready to be built into graphs.
#pragma once
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "graph/ops.h"
#include "model/arch/layer_range.h"
#include "model/arch/model_config.h"
#include "model/arch/weights.h"

namespace butterfly::model {

// Inputs and output of a built graph. A first stage reads token ids, a later one hidden rows; the last stage
// gives logits of the selected rows, an earlier one hidden rows.
struct StageValues {
  graph::ValueId tokens;     // [rows] i32, if the range begins the chain
  graph::ValueId hidden;     // [rows, dim], if it does not
  graph::ValueId positions;  // [rows] i32
  graph::ValueId selected;   // [output_rows] i32: rows whose logits are wanted, if the range ends the chain
  // [output_rows] i32, where members have parts of the head: candidates that are wanted of each (0: all)
  graph::ValueId candidates;
  graph::ValueId adapters;         // [rows] i32, if rows may name some: see graph::RowAdapters
  graph::ValueId output;           // [output_rows, vocab] or [rows, dim]
  graph::ValueId normed_selected;  // [normed_rows] i32: rows that are wanted as the head reads them, if any
  graph::ValueId normed;           // [normed_rows, dim]: those, after the last norm
};

// A batch of whole sequences of one length.
struct TrainingShape {
  size_t sequences = 1;
  size_t length = 0;
  float dropout = 0;
  float adapter_dropout = 0;  // of what adapters read
  bool gradients = true;      // false: for evaluation, without room for them
  // Above 0: neighbouring sequences are pairs of answers, the better one first, and what is learned is to
  // prefer it, with this beta, beyond what the model does without its adapters (graph::preference()).
  float preference_beta = 0;
};

// Inputs and results of a training graph. Rows are positions of sequences, one behind the other.
struct TrainingValues {
  graph::ValueId tokens;       // [rows] i32, if the range begins the chain
  graph::ValueId hidden;       // [rows, dim], if it does not: what the range before it gives
  graph::ValueId embedded;     // [rows, dim]: rows of the embedding's table, if the range begins the chain
  graph::ValueId output;       // [rows, dim], if the range does not end the chain
  graph::ValueId positions;    // [rows] i32
  graph::ValueId targets;      // [rows] i32; graph::kNoTarget where there is none
  graph::ValueId factor;       // [1]: of the loss, usually 1 / targets of the step
  graph::ValueId dropout_key;  // [2] i32, with dropout only
  graph::Loss loss;            // if the range ends the chain
  graph::ValueId shown;        // what people are told instead of the loss; invalid: that
};

// The layers of one stage, as functions that add them to a graph. Owns its weights, which may be shared with
// others. Immutable: any thread may build from it.
class Network {
 public:
  virtual ~Network() = default;
  // Adds the network for `rows` rows to the graph. The graph borrows the weights. `normed_rows`: for
  // embeddings. `adapter_rank`: rows may name adapters of at most this rank (0: none), where the layers have
  // numbers (WeightLoader::list_sites()).
  virtual StageValues build(graph::Graph& graph, size_t rows, size_t output_rows, size_t normed_rows = 0,
                            size_t adapter_rank = 0) const = 0;
  // Some of its blocks only, and the embedding if the part has it (the head never is): hidden rows come out.
  // For rows that other layers have seen already.
  virtual StageValues build_part(graph::Graph& graph, size_t rows, const LayerRange& part,
                                 size_t adapter_rank = 0) const = 0;
  // The same blocks for training, of the whole model or of a range. The weights that learn are those marked
  // trainable: see WeightLoader::keep_for_training().
  virtual TrainingValues build_training(graph::Graph& graph, const TrainingShape& shape) const = 0;
};

using LoadNetwork = std::unique_ptr<Network>(const ModelConfig& config, WeightLoader& weights,
                                             LayerRange range);

// What each block keeps of a text. `config` has all numbers but these.
using DescribeStates = std::vector<LayerState>(const ModelFile& file, const ModelConfig& config);

// What a member of a group keeps of recurrent layer `layer`.
using ShareState = LayerState(const ModelFile& file, const ModelConfig& config, const GroupShare& group,
                              size_t layer);

// One architecture: files name it in general.architecture.
struct Architecture {
  std::string_view name;
  std::string_view words;  // for people
  LoadNetwork* load;
  DescribeStates* states;
  bool predicts = false;              // its files may have a block that predicts further ahead (predictor.h)
  ShareState* share_state = nullptr;  // of those with recurrent layers
};
std::span<const Architecture> architectures();
// Throws Error kUnsupported naming the file, what was found and what exists.
const Architecture& architecture_of(const ModelFile& file);
// Null: no such architecture.
const Architecture* find_architecture(std::string_view name);

// The rows' functions; each file says what is particular.
LoadNetwork load_deepseek2, load_gemma2, load_gemma3, load_gemma4, load_glm4moe, load_gpt2, load_gpt_oss,
    load_granite, load_lfm2, load_llama, load_minimax_m2, load_mistral3, load_nemotron_h, load_olmo2,
    load_phi3, load_qwen2, load_qwen3, load_qwen3moe, load_qwen35, load_qwen35moe, load_smollm3;
// All positions; all positions, or the window that "attention.sliding_window" names; some layers a window;
// most layers a recurrent state.
DescribeStates full_states, window_states, deepseek2_states, gemma2_states, gemma3_states, gemma4_states,
    gpt_oss_states, granite_hybrid_states, lfm2_states, nemotron_h_states, olmo2_states, qwen35_states;
ShareState lfm2_share, mamba2_share, qwen35_share;
// Windows as "attention.sliding_window" (`window` without it; 0: none) and its pattern say: every `period`-th
// layer sees everything, unless the file lists the layers.
std::vector<LayerState> pattern_states(const ModelFile& file, const ModelConfig& config, size_t window,
                                       size_t period);

}  // namespace butterfly::model
