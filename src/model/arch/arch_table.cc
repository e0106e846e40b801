#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "model/arch/network.h"
#include "model/metadata/architecture_names.h"

namespace butterfly::model {
namespace {

constexpr Architecture kArchitectures[] = {
    {"llama", "Llama 1 to 3, Mistral, Mixtral, TinyLlama, SmolLM", load_llama, window_states},
    {"qwen2", "Qwen 2 and 2.5", load_qwen2, full_states},
    {"qwen3", "Qwen 3", load_qwen3, full_states},
    {"qwen3moe", "Qwen 3 with experts", load_qwen3moe, full_states},
    {"qwen3vl", "Qwen 3 VL, text", load_qwen3, full_states},
    {"qwen3vlmoe", "Qwen 3 VL with experts, text", load_qwen3moe, full_states},
    {"qwen35", "Qwen 3.5 and 3.6", load_qwen35, qwen35_states, true, qwen35_share},
    {"qwen35moe", "Qwen 3.5 and 3.6 with experts", load_qwen35moe, qwen35_states, true, qwen35_share},
    {"qwen3next", "Qwen3-Next", load_qwen35moe, qwen35_states, false, qwen35_share},
    {"gpt2", "GPT-2", load_gpt2, full_states},
    {"gpt-oss", "gpt-oss", load_gpt_oss, gpt_oss_states},
    {"phi3", "Phi 3 and 4", load_phi3, window_states},
    {"gemma2", "Gemma 2", load_gemma2, gemma2_states},
    {"mistral3", "Mistral 3 and Ministral 3, text", load_mistral3, window_states},
    {"smollm3", "SmolLM 3", load_smollm3, full_states},
    {"granite", "Granite 3 and 4", load_granite, full_states},
    {"granitemoe", "Granite 3 and 4 with experts", load_granite, full_states},
    {"olmo2", "OLMo 2 and 3", load_olmo2, olmo2_states},
    {"glm4moe", "GLM 4.5 to 4.7", load_glm4moe, full_states, true},
    {"minimax-m2", "MiniMax M2", load_minimax_m2, full_states},
    {"lfm2", "LFM2", load_lfm2, lfm2_states, false, lfm2_share},
    {"lfm2moe", "LFM2 with experts", load_lfm2, lfm2_states, false, lfm2_share},
    {"gemma3", "Gemma 3, text", load_gemma3, gemma3_states},
    {"gemma4", "Gemma 4, text", load_gemma4, gemma4_states},
    {"nemotron_h", "Nemotron-H and Nemotron Nano 2", load_nemotron_h, nemotron_h_states, false, mamba2_share},
    {"nemotron_h_moe", "Nemotron 3 with experts", load_nemotron_h, nemotron_h_states, false, mamba2_share},
    {"granitehybrid", "Granite 4 with recurrent layers", load_granite, granite_hybrid_states, false,
     mamba2_share},
    {"deepseek2", "DeepSeek V2 and V3, Kimi K2, GLM-4.7-Flash", load_deepseek2, deepseek2_states},
};
static_assert(covers_architectures(kArchitectures, &Architecture::name));

}  // namespace

std::span<const Architecture> architectures() { return kArchitectures; }

const Architecture* find_architecture(std::string_view name) {
  for (const Architecture& row : kArchitectures)
    if (row.name == name) return &row;
  return nullptr;
}

const Architecture& architecture_of(const ModelFile& file) {
  if (const Architecture* known = find_architecture(file.architecture())) return *known;
  std::vector<std::string_view> names;
  for (const Architecture& row : kArchitectures) names.push_back(row.name);
  fail(Errc::kUnsupported, "{}: architecture '{}' is not supported; this build knows {}",
       file.path().string(), file.architecture(), fmt::join(names, ", "));
}

}  // namespace butterfly::model
