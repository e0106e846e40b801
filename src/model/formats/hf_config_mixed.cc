// Readers of config.json for models whose layers differ: Gemma 4, and those with Mamba-2 layers; and for
// DeepSeek's.
#include <algorithm>

#include "base/error.h"
#include "model/formats/hf_config_parts.h"

namespace butterfly::model {
namespace {

constexpr uint32_t kSizeMax = 1u << 24;

uint32_t bounded(const JsonObject& config, const char* key, uint32_t most = kSizeMax) {
  const uint32_t value = config.u32(key);
  if (value == 0 || value > most) config.mismatch(key, fmt::format("1 to {}", most));
  return value;
}

// Pairs behind the rotated part of a head are divided by so much that they stay.
NamedTensor part_rotated(uint32_t head_dim, double share) {
  Tensor factors = Tensor::zeros(DType::kF32, Shape{int64_t{head_dim / 2}});
  for (uint32_t i = 0; i < head_dim / 2; ++i)
    factors.data<float>()[i] = i < share * (head_dim / 2) ? 1.0f : 1e30f;
  return NamedTensor("rope_freqs.weight", factors, 0);
}

void read_gemma4_text(const JsonObject& config, const std::string& arch, HfConfig& to) {
  expect_hf_activation(config, "hidden_activation", {"gelu_pytorch_tanh"});
  const uint32_t near = read_hf_transformer(config, arch, to);
  const uint32_t whole = config.has("global_head_dim") ? bounded(config, "global_head_dim", 65536) : near;
  HfKeys keys(to.metadata, arch);
  for (const char* name : {"attention.key_length", "attention.value_length", "rope.dimension_count"}) {
    keys.set(name, whole);
    keys.set(std::string(name) + "_swa", near);
  }
  const uint32_t layers = bounded(config, "num_hidden_layers", 4096);
  const uint32_t shared = config.u32_or("num_kv_shared_layers", 0), ff = bounded(config, "intermediate_size");
  const uint32_t kv_heads = config.u32("num_key_value_heads");
  const bool wide = config.boolean_or("use_double_wide_mlp", false);
  const std::vector<std::string> types = config.strings("layer_types");
  if (types.size() != layers) config.mismatch("layer_types", fmt::format("{} names", layers));
  std::vector<uint8_t> windows;
  std::vector<int32_t> heads, widths;
  for (uint32_t layer = 0; layer < layers; ++layer) {
    windows.push_back(types[layer] == "sliding_attention" ? 1 : 0);
    heads.push_back(static_cast<int32_t>(
        windows.back() == 1 ? kv_heads : config.u32_or("num_global_key_value_heads", kv_heads)));
    widths.push_back(static_cast<int32_t>(wide && layer + shared >= layers ? 2 * ff : ff));
  }
  keys.set("attention.sliding_window", config.u32("sliding_window"));
  keys.set("attention.sliding_window_pattern", bool_array(std::move(windows)));
  keys.set("attention.head_count_kv", i32_array(std::move(heads)));
  keys.set("feed_forward_length", i32_array(std::move(widths)));
  if (shared > 0) keys.set("attention.shared_kv_layers", shared);
  keys.set("embedding_length_per_layer_input", config.u32_or("hidden_size_per_layer_input", 0));
  if (config.has("final_logit_softcapping"))
    keys.set("final_logit_softcapping", config.f32("final_logit_softcapping"));
  if (config.boolean_or("enable_moe_block", false)) {
    keys.set("expert_count", config.u32("num_experts"));
    keys.set("expert_used_count",
             config.u32(config.has("top_k_experts") ? "top_k_experts" : "num_experts_per_tok"));
    keys.set("expert_feed_forward_length",
             config.u32(config.has("moe_intermediate_size") ? "moe_intermediate_size"
                                                            : "expert_intermediate_size"));
  }
  // Bases of both kinds of layers, and the part of a head that is rotated where the whole text is seen.
  double share = 1;
  const auto parameters = config.object("rope_parameters");
  const auto full = parameters ? parameters->object("full_attention") : std::nullopt;
  const auto local = parameters ? parameters->object("sliding_attention") : std::nullopt;
  if (full && full->has("partial_rotary_factor")) share = full->number("partial_rotary_factor");
  if (full && full->has("rope_theta"))
    keys.set("rope.freq_base", full->f32("rope_theta"));
  else
    keys.set("rope.freq_base", config.f32_or("rope_theta", 1'000'000.0f));
  keys.set("rope.freq_base_swa", local && local->has("rope_theta") ? local->f32("rope_theta") : 10000.0f);
  to.tensors.push_back(part_rotated(whole, share));
}

// The "ssm." keys; `inner` columns in all.
void read_mamba(const JsonObject& config, const std::string& arch, const char* heads, const char* head_dim,
                const char* groups, const char* state, const char* taps, HfConfig& to) {
  HfKeys keys(to.metadata, arch);
  const uint32_t count = bounded(config, heads, 65536), dim = bounded(config, head_dim, 4096);
  if (uint64_t{count} * dim > kSizeMax) config.mismatch(heads, "fewer heads");
  keys.set("ssm.conv_kernel", config.u32(taps));
  keys.set("ssm.inner_size", count * dim);
  keys.set("ssm.state_size", config.u32(state));
  keys.set("ssm.time_step_rank", count);
  keys.set("ssm.group_count", config.u32(groups));
}

}  // namespace

void read_gemma4_config(const JsonObject& config, const std::string& arch, HfConfig& to) {
  with_text_config(config, [&](const JsonObject& text) { read_gemma4_text(text, arch, to); });
}

void read_nemotron_h_config(const JsonObject& config, const std::string& arch, HfConfig& to) {
  expect_hf_activation(config, "mlp_hidden_act", {"relu2"});
  read_hf_transformer(config, arch, to);
  HfKeys keys(to.metadata, arch);
  read_mamba(config, arch, "mamba_num_heads", "mamba_head_dim", "n_groups", "ssm_state_size", "conv_kernel",
             to);
  keys.set("rope.freq_base", config.f32_or("rope_theta", 10000.0f));
  keys.set("attention.layer_norm_epsilon", config.f32_or("layer_norm_epsilon", 1e-5f));
  const std::string pattern = config.string("hybrid_override_pattern");
  const bool experts = arch == "nemotron_h_moe";
  const auto ff =
      static_cast<int32_t>(bounded(config, experts ? "moe_intermediate_size" : "intermediate_size"));
  std::vector<int32_t> kv_heads, widths;
  for (const char kind : pattern) {
    if (kind != 'M' && kind != '*' && kind != '-' && kind != 'E')
      config.mismatch("hybrid_override_pattern", "M, *, - and E");
    kv_heads.push_back(kind == '*' ? static_cast<int32_t>(config.u32("num_key_value_heads")) : 0);
    widths.push_back(kind == '-' || kind == 'E' ? ff : 0);
  }
  if (pattern.size() != config.u32("num_hidden_layers"))
    config.mismatch("hybrid_override_pattern", "a letter for each layer");
  keys.set("attention.head_count_kv", i32_array(std::move(kv_heads)));
  keys.set("feed_forward_length", i32_array(std::move(widths)));
  if (!experts) return;
  keys.set("expert_count", config.u32("n_routed_experts"));
  keys.set("expert_used_count", config.u32("num_experts_per_tok"));
  keys.set("expert_feed_forward_length", static_cast<uint32_t>(ff));
  keys.set("expert_shared_count", config.u32_or("n_shared_experts", 1));
  keys.set("expert_shared_feed_forward_length", config.u32("moe_shared_expert_intermediate_size"));
  keys.set("expert_weights_norm", config.boolean_or("norm_topk_prob", true));
  keys.set("expert_weights_scale", config.f32_or("routed_scaling_factor", 1.0f));
  if (config.u32_or("n_group", 1) != 1) config.mismatch("n_group", "1");
}

void read_granitehybrid_config(const JsonObject& config, const std::string& arch, HfConfig& to) {
  read_granite_config(config, arch, to);
  HfKeys keys(to.metadata, arch);
  read_mamba(config, arch, "mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state", "mamba_d_conv",
             to);
  std::vector<int32_t> kv_heads;
  for (const std::string& type : config.strings("layer_types"))
    kv_heads.push_back(type == "attention" ? static_cast<int32_t>(config.u32("num_key_value_heads")) : 0);
  keys.set("attention.head_count_kv", i32_array(std::move(kv_heads)));
  keys.set("rope.scaling.finetuned", config.string_or("position_embedding_type", "nope") == "rope");
  if (config.u32_or("num_local_experts", 0) == 0)
    keys.set("feed_forward_length", config.u32("shared_intermediate_size"));
  else if (config.has("shared_intermediate_size"))
    keys.set("expert_shared_feed_forward_length", config.u32("shared_intermediate_size"));
}

void read_deepseek2_config(const JsonObject& config, const std::string& arch, HfConfig& to) {
  expect_hf_activation(config, "hidden_act", {"silu"});
  read_hf_transformer(config, arch, to);
  HfKeys keys(to.metadata, arch);
  const uint32_t latent = bounded(config, "kv_lora_rank", 65536),
                 rotated = bounded(config, "qk_rope_head_dim", 4096);
  keys.set("attention.head_count_kv", uint32_t{1});
  if (config.has("q_lora_rank")) keys.set("attention.q_lora_rank", config.u32("q_lora_rank"));
  keys.set("attention.kv_lora_rank", latent);
  keys.set("attention.key_length", latent + rotated);
  keys.set("attention.value_length", latent);
  keys.set("attention.key_length_mla", bounded(config, "qk_nope_head_dim", 4096) + rotated);
  keys.set("attention.value_length_mla", bounded(config, "v_head_dim", 4096));
  keys.set("rope.dimension_count", rotated);
  keys.set("leading_dense_block_count", config.u32_or("first_k_dense_replace", 0));
  keys.set("expert_count", config.u32("n_routed_experts"));
  keys.set("expert_used_count", config.u32("num_experts_per_tok"));
  keys.set("expert_feed_forward_length", config.u32("moe_intermediate_size"));
  keys.set("expert_shared_count", config.u32_or("n_shared_experts", 1));
  const std::string scores =
      config.string_or("scoring_func", arch == "deepseek2" && config.has("topk_method") &&
                                               config.string("topk_method") == "noaux_tc"
                                           ? "sigmoid"
                                           : "softmax");
  if (scores != "sigmoid" && scores != "softmax") config.mismatch("scoring_func", "sigmoid or softmax");
  keys.set("expert_gating_func", uint32_t{scores == "sigmoid" ? 2u : 1u});
  keys.set("expert_weights_norm", config.boolean_or("norm_topk_prob", false));
  keys.set("expert_weights_scale", config.f32_or("routed_scaling_factor", 1.0f));
  if (config.u32_or("n_group", 1) > 1) {
    keys.set("expert_group_count", config.u32("n_group"));
    keys.set("expert_group_used_count", config.u32("topk_group"));
  }
  read_rope_config(config, arch, rotated, 10000, to);
  if (const auto scaling = config.object("rope_scaling"); scaling && scaling->has("mscale_all_dim"))
    keys.set("rope.scaling.yarn_log_multiplier", static_cast<float>(0.1 * scaling->number("mscale_all_dim")));
}

}  // namespace butterfly::model
