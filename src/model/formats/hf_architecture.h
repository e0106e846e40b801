// How Hugging Face's model classes map to GGUF: keys out of config.json, tensor names, and the values that
// GGUF keeps in another order. One row per class in hf_architecture_table.cc.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/formats/json_file.h"
#include "model/formats/model_file.h"
#include "model/metadata/metadata.h"

namespace butterfly::model {

// What happens to the values on the way.
enum class HfValues {
  kAsStored,
  kRopePairsQ,   // a head's rows from (first half, second half) to pairs, as GGUF's llama rotates them
  kRopePairsKv,  // the same for key heads
  kTranspose,    // [in, out] to [out, in]
  kAddOne,       // norm weights kept as w - 1; becomes F32
  kExpert,       // one of the matrices that are stacked to [experts, out, in]
  kIgnore,       // buffers that are no weights
  // Linear attention. GGUF has the value heads of qwen35 in another order: all first ones of the key heads'
  // groups, then all second ones.
  kDeltaQkv,      // rows of queries, keys and values
  kDeltaConv,     // the same channels, [channels, 1, taps] to [channels, taps]
  kDeltaRows,     // rows, or numbers, by value head
  kDeltaColumns,  // columns by value head
  kDeltaA,        // -exp of numbers by value head; becomes F32
  // Queries, keys, values and gates key head by key head: the first three, one behind the other. The rule
  // behind it is for the same tensor: the gates.
  kDeltaQkvOfAll,
  kDeltaGateOfAll,
  kOneRow,     // [1, columns] to [columns]
  kNoMiddle,   // [a, 1, b] to [a, b]
  kColumn,     // [n] to [n, 1]
  kMambaA,     // -exp of [n], as [n, 1]; becomes F32
  kGroupRows,  // [n] to [groups of Mamba-2, n / groups]
  // Rows of keys and values of each head, from a latent: [heads, latent, keys], the other way round, and
  // [heads, values, latent]. The rule behind the first is for the same tensor.
  kLatentKeys,
  kLatentValues,
  // Experts in one tensor (hf_experts.h). A gate's rule stands before the output's, for the same tensor.
  kExpertsGate,  // [experts, columns, 2 * rows] to [experts, rows, columns], every second one
  kExpertsUp,
  kExpertsGateHalf,  // the same, but the first and the second half of the rows
  kExpertsUpHalf,
  kExpertsDown,  // [experts, columns, rows] to [experts, rows, columns]
  kExpertsGateBias,
  kExpertsUpBias,
  kMxfp4Gate,  // "..._blocks", with "..._scales" beside it
  kMxfp4Up,
  kMxfp4Down,
  kFirstRows,  // [(experts,) 2 * rows, columns] to [(experts,) rows, columns]: one half
  kSecondRows,
};

// Names without the prefixes "model.", "transformer." and "language_model."; # stands for the layer's number,
// @ for the expert's.
struct HfRule {
  std::string_view from;
  std::string_view to;
  HfValues values = HfValues::kAsStored;
};

// What config.json becomes: GGUF keys, and tensors that GGUF has where Hugging Face has numbers.
struct HfConfig {
  Metadata metadata;
  std::vector<NamedTensor> tensors;
};

using ReadHfConfig = void(const JsonObject& config, const std::string& arch, HfConfig& to);

struct HfArchitecture {
  std::string_view class_name;  // as in "architectures" of config.json
  std::string_view gguf_name;   // general.architecture
  ReadHfConfig* read_config;
  std::array<std::span<const HfRule>, 5> rules;
  bool tied;                 // whether output and embedding share a matrix when config.json does not say
  bool more_layers = false;  // layers behind the last that config.json counts guess further ahead: left out
  std::string_view with_key = {};  // of classes with several rows: the one whose key config.json has
};

std::span<const HfArchitecture> hf_architectures();
// The row for a config.json. Throws Error kUnsupported that names what was found and what exists.
const HfArchitecture& hf_architecture_of(const JsonObject& config);

// Whether the rule behind one with these values is for the same tensor too.
constexpr bool has_second_rule(HfValues values) {
  return values == HfValues::kDeltaQkvOfAll || values == HfValues::kLatentKeys ||
         values == HfValues::kExpertsGate || values == HfValues::kExpertsGateHalf ||
         values == HfValues::kExpertsGateBias || values == HfValues::kMxfp4Gate ||
         values == HfValues::kFirstRows;
}

// The readers of config.json, one per family: Mistral's is Mixtral's too, Qwen 3's reads experts, Gemma's is
// for 2 and 3.
ReadHfConfig read_deepseek2_config, read_gemma4_config, read_granitehybrid_config, read_nemotron_h_config;
ReadHfConfig read_gemma_config, read_glm4moe_config, read_gpt2_config, read_gpt_oss_config,
    read_granite_config, read_lfm2_config, read_llama_config, read_minimax_config, read_mistral_config,
    read_mistral3_config, read_olmo2_config, read_phi3_config, read_qwen2_config, read_qwen3_config,
    read_qwen3vl_config, read_qwen35_config, read_smollm3_config;

// rope.freq_base and rope.scaling.*, and the tensors of per-pair factors (llama3, longrope). `rotated` is the
// number of values of a head that are rotated.
void read_rope_config(const JsonObject& config, const std::string& arch, uint32_t rotated,
                      double default_base, HfConfig& to);

}  // namespace butterfly::model
