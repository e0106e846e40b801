// Models with random weights: any supported architecture, shape and element type, as GGUF. For tests,
// benchmarks and demos.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/metadata/metadata.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace butterfly::model {

// Names follow GGUF's keys. Defaults make a few megabytes.
struct RandomModelOptions {
  std::string architecture = "llama";
  uint32_t vocabulary_size = 4096;
  uint32_t context_length = 512;
  uint32_t embedding_length = 256;
  uint32_t block_count = 4;
  uint32_t feed_forward_length = 768;
  uint32_t head_count = 8;
  uint32_t head_count_kv = 4;
  uint32_t head_length = 0;      // 0: embedding length / heads
  uint32_t sliding_window = 16;  // of architectures whose files have one
  uint32_t expert_count = 8;     // of architectures with experts
  uint32_t expert_used_count = 2;
  uint32_t predicting_blocks =
      0;                      // 1: behind the others one that predicts further ahead, where files have one
  uint32_t state_length = 0;  // of gated delta nets' heads; 0: a head's, rounded up to 16
  uint32_t state_head_count = 0;     // their value heads; 0: as attention
  uint32_t state_head_count_kv = 0;  // their key heads; 0: as attention
  uint32_t window_period = 2;        // gemma4: every so many layers one sees all positions
  uint32_t layer_input_length = 0;   // gemma4: of the inputs that layers have; 0: a block of the type
  uint32_t shared_kv_layers = 0;     // gemma4: so many read the keys of earlier ones; 0: the last one or two
  float rope_freq_base = 10000.0f;
  DType matrix_type = DType::kQ8_0;
  DType vocabulary_type = DType::kQ8_0;  // token_embd and output
  std::optional<DType> expert_type;      // of routed experts; none: matrix_type
  bool tied = false;                     // no output matrix: the token embedding serves
  uint64_t seed = 1;
};

// One tensor of a model to be made. Values are `mean` plus `deviation` times noise of deviation 1.
struct TensorPlan {
  std::string name;
  Shape shape;
  DType dtype = DType::kF32;
  float mean = 0;
  float deviation = 0;
};

using AddMetadata = void(const RandomModelOptions& options, Metadata& metadata);
using PlanTensors = std::vector<TensorPlan>(const RandomModelOptions& options);

// How one architecture is laid out. Some are laid out in several ways: with or without experts, say.
struct RandomArchitecture {
  std::string_view name;
  std::string_view architecture;  // as the file says
  AddMetadata* add_metadata;
  PlanTensors* plan;
  uint32_t layers =
      2;  // a small model's: enough that each kind of layer is among them, and one follows the last
  bool predicts = false;  // may have a block that predicts further ahead
};
std::span<const RandomArchitecture> random_architectures();
// Throws Error kUnsupported that names those that exist.
const RandomArchitecture& random_architecture(std::string_view name);

// Called with the bytes written so far and in all; may throw to stop.
using WriteProgress = std::function<void(uint64_t done, uint64_t total)>;

// Writes the model. The bytes depend only on the options: a weight is a function of (seed, tensor name,
// index), so it stays the same when the number of layers or the element type changes. Uses all CPUs; memory
// stays at a few megabytes. Throws Error kInvalidArgument for sizes that do not fit together, naming both; on
// any error there is no file.
void write_random_model(const std::filesystem::path& path, const RandomModelOptions& options,
                        const WriteProgress& progress = {});

}  // namespace butterfly::model
