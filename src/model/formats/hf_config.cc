// Readers of config.json: Hugging Face's numbers under GGUF's keys.
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "model/formats/hf_config_parts.h"

namespace butterfly::model {
namespace {

uint32_t head_size(const JsonObject& config, uint32_t heads) {
  if (config.has("head_dim")) return config.u32("head_dim");
  const uint32_t dim = config.u32("hidden_size");
  if (heads == 0 || dim % heads != 0)
    fail(Errc::kCorrupt, "{}: key hidden_size: {} columns do not divide into {} heads", config.file(), dim,
         heads);
  return dim / heads;
}

// Which layers see a window, where that is not what every reader takes for granted: all but each `usual`-th.
void set_pattern(const JsonObject& config, HfKeys& keys, uint32_t usual) {
  const uint32_t period = config.u32_or("sliding_window_pattern", usual);
  if (period != usual) keys.set("attention.sliding_window_pattern", period);
  if (!config.has("layer_types")) return;
  std::vector<uint8_t> local;
  bool as_usual = true;
  for (const std::string& type : config.strings("layer_types")) {
    local.push_back(type == "sliding_attention");
    as_usual = as_usual && local.back() == (local.size() % usual != 0);
  }
  if (!as_usual) keys.set("attention.sliding_window_pattern", MetaArray{MetaType::kBool, std::move(local)});
}

// The first of these that has `key`: rope settings have moved between them.
std::optional<double> rope_number(const JsonObject& config, std::string_view key) {
  for (const char* place : {"rope_parameters", "rope_scaling"})
    if (const auto settings = config.object(place); settings && settings->has(key))
      return settings->number(key);
  if (config.has(key)) return config.number(key);
  return std::nullopt;
}

// Of the values of a head; `share` where config.json does not say.
uint32_t rotated_part(const JsonObject& config, uint32_t head_dim, double share) {
  share = rope_number(config, "partial_rotary_factor").value_or(share);
  return static_cast<uint32_t>(std::clamp(share, 0.0, 1.0) * head_dim);
}

// Pairs of a head by time, height and width.
void set_sections(const JsonObject& config, HfKeys& keys, std::vector<int32_t> usual) {
  for (const char* place : {"rope_scaling", "rope_parameters"})
    if (const auto settings = config.object(place); settings && settings->has("mrope_section")) {
      usual.clear();
      for (const float pairs : settings->numbers("mrope_section"))
        usual.push_back(static_cast<int32_t>(pairs));
    }
  usual.resize(4, 0);
  keys.set("rope.dimension_sections", i32_array(std::move(usual)));
}

}  // namespace

uint32_t read_hf_transformer(const JsonObject& config, const std::string& arch, HfConfig& to) {
  HfKeys keys(to.metadata, arch);
  const uint32_t heads = config.u32("num_attention_heads");
  const uint32_t head_dim = head_size(config, heads);
  if (config.has("vocab_size")) keys.set("vocab_size", config.u32("vocab_size"));
  keys.set("context_length", config.u32("max_position_embeddings"));
  keys.set("embedding_length", config.u32("hidden_size"));
  keys.set("block_count", config.u32("num_hidden_layers"));
  // Where all layers have experts some leave it out.
  for (const char* name : {"intermediate_size", "block_ff_dim", "moe_intermediate_size"})
    if (config.has(name) || std::string_view(name).starts_with("moe")) {
      keys.set("feed_forward_length", config.u32(name));
      break;
    }
  keys.set("attention.head_count", heads);
  keys.set("attention.head_count_kv", config.u32_or("num_key_value_heads", heads));
  keys.set("attention.layer_norm_rms_epsilon", config.f32(config.has("rms_norm_eps") ? "rms_norm_eps"
                                                          : config.has("norm_eps")   ? "norm_eps"
                                                                                     : "layer_norm_epsilon"));
  if (config.has("head_dim")) {
    keys.set("attention.key_length", head_dim);
    keys.set("attention.value_length", head_dim);
  }
  return head_dim;
}

void expect_hf_activation(const JsonObject& config, std::string_view key,
                          std::initializer_list<std::string_view> known) {
  if (!config.has(key)) return;
  const std::string found = config.string(key);
  for (const std::string_view name : known)
    if (found == name) return;
  config.mismatch(key, *known.begin());
}

void read_llama_config(const JsonObject& config, const std::string& arch, HfConfig& to) {
  expect_hf_activation(config, "hidden_act", {"silu", "swish"});
  const uint32_t head_dim = read_hf_transformer(config, arch, to);
  HfKeys keys(to.metadata, arch);
  keys.set("rope.dimension_count", head_dim);
  if (config.u32_or("num_local_experts", 0) > 0) {
    keys.set("expert_count", config.u32("num_local_experts"));
    keys.set("expert_used_count", config.u32("num_experts_per_tok"));
  }
  read_rope_config(config, arch, head_dim, 10000, to);
}

void read_mistral_config(const JsonObject& config, const std::string& arch, HfConfig& to) {
  read_llama_config(config, arch, to);
  if (config.has("sliding_window"))
    HfKeys(to.metadata, arch).set("attention.sliding_window", config.u32("sliding_window"));
}

namespace {

// Qwen's files name a window and, so far, all say not to use it.
void expect_no_window(const JsonObject& config) {
  if (config.boolean_or("use_sliding_window", false) &&
      config.u32_or("max_window_layers", 0) < config.u32("num_hidden_layers"))
    fail(Errc::kUnsupported, "{}: key use_sliding_window: windows in some of the layers are not supported",
         config.file());
}

}  // namespace

void read_qwen2_config(const JsonObject& config, const std::string& arch, HfConfig& to) {
  expect_no_window(config);
  read_llama_config(config, arch, to);
}

void read_qwen3_config(const JsonObject& config, const std::string& arch, HfConfig& to) {
  expect_hf_activation(config, "hidden_act", {"silu"});
  expect_no_window(config);
  const uint32_t head_dim = read_hf_transformer(config, arch, to);
  HfKeys keys(to.metadata, arch);
  keys.set("attention.key_length", head_dim);
  keys.set("attention.value_length", head_dim);
  if (arch == "qwen3moe" || arch == "qwen3vlmoe") {
    keys.set("expert_count", config.u32("num_experts"));
    keys.set("expert_used_count", config.u32("num_experts_per_tok"));
    keys.set("expert_feed_forward_length", config.u32("moe_intermediate_size"));
  }
  read_rope_config(config, arch, head_dim, 10000, to);
}

namespace {

// The rotated part of a head, and how its pairs are shared out to time, height and width.
void read_partial_rope(const JsonObject& config, const std::string& arch, uint32_t head_dim, HfConfig& to) {
  const uint32_t rotated = rotated_part(config, head_dim, 0.25);
  HfKeys keys(to.metadata, arch);
  keys.set("rope.dimension_count", rotated);
  if (arch != "qwen3next") {
    set_sections(config, keys, {11, 11, 10});
  }
  read_rope_config(config, arch, rotated, 10'000'000, to);
}

void read_qwen35_text(const JsonObject& config, const std::string& arch, HfConfig& to) {
  expect_hf_activation(config, "hidden_act", {"silu"});
  const uint32_t head_dim = read_hf_transformer(config, arch, to);
  HfKeys keys(to.metadata, arch);
  keys.set("attention.key_length", head_dim);
  keys.set("attention.value_length", head_dim);
  const uint32_t dim = config.u32("linear_key_head_dim"), values = config.u32("linear_num_value_heads");
  if (config.u32("linear_value_head_dim") != dim)
    config.mismatch("linear_value_head_dim", std::to_string(dim));
  if (dim == 0 || dim > 4096) config.mismatch("linear_key_head_dim", "1 to 4096");
  if (values == 0 || values > 65536) config.mismatch("linear_num_value_heads", "1 to 65536");
  keys.set("ssm.conv_kernel", config.u32("linear_conv_kernel_dim"));
  keys.set("ssm.inner_size", dim * values);
  keys.set("ssm.state_size", dim);
  keys.set("ssm.time_step_rank", values);
  keys.set("ssm.group_count", config.u32("linear_num_key_heads"));
  const uint32_t interval = config.u32_or("full_attention_interval", 4);
  keys.set("full_attention_interval", interval);
  if (config.has("layer_types")) {
    std::vector<uint8_t> recurrent;
    bool usual = interval > 0;
    for (const std::string& type : config.strings("layer_types")) {
      recurrent.push_back(type == "linear_attention");
      usual = usual && recurrent.back() == (recurrent.size() % interval != 0);
    }
    if (!usual) keys.set("attention.recurrent_layers", MetaArray{MetaType::kBool, std::move(recurrent)});
  }
  if (arch != "qwen35") {
    keys.set("expert_count", config.u32("num_experts"));
    keys.set("expert_used_count", config.u32("num_experts_per_tok"));
    keys.set("expert_feed_forward_length", config.u32("moe_intermediate_size"));
    keys.set("expert_shared_feed_forward_length", config.u32("shared_expert_intermediate_size"));
  }
  read_partial_rope(config, arch, head_dim, to);
}

}  // namespace

void read_qwen35_config(const JsonObject& config, const std::string& arch, HfConfig& to) {
  with_text_config(config, [&](const JsonObject& text) { read_qwen35_text(text, arch, to); });
}

void read_qwen3vl_config(const JsonObject& config, const std::string& arch, HfConfig& to) {
  with_text_config(config, [&](const JsonObject& text) {
    read_qwen3_config(text, arch, to);
    HfKeys keys(to.metadata, arch);
    set_sections(text, keys, {24, 20, 20});
  });
}

void read_mistral3_config(const JsonObject& config, const std::string& arch, HfConfig& to) {
  with_text_config(config, [&](const JsonObject& text) {
    read_mistral_config(text, arch, to);
    HfKeys keys(to.metadata, arch);
    if (const auto scale = rope_number(text, "llama_4_scaling_beta"))
      keys.set("attention.temperature_scale", static_cast<float>(*scale));
    if (const auto all = rope_number(text, "mscale_all_dim"))
      keys.set("rope.scaling.yarn_log_multiplier", static_cast<float>(*all));
  });
}

void read_smollm3_config(const JsonObject& config, const std::string& arch, HfConfig& to) {
  expect_no_window(config);
  read_llama_config(config, arch, to);
  if (!config.has("no_rope_layers")) return;
  // GGUF has no key for them.
  size_t layer = 0;
  for (const float rotated : config.numbers("no_rope_layers"))
    if ((rotated != 0) != (++layer % 4 != 0)) config.mismatch("no_rope_layers", "0 for every fourth layer");
}

void read_granite_config(const JsonObject& config, const std::string& arch, HfConfig& to) {
  read_llama_config(config, arch, to);
  HfKeys keys(to.metadata, arch);
  constexpr std::pair<const char*, const char*> kScales[] = {{"attention_multiplier", "attention.scale"},
                                                             {"embedding_multiplier", "embedding_scale"},
                                                             {"residual_multiplier", "residual_scale"},
                                                             {"logits_scaling", "logit_scale"}};
  for (const auto& [from, name] : kScales)
    if (config.has(from)) keys.set(name, config.f32(from));
  if (arch == "granitemoe" && config.has("shared_intermediate_size"))
    keys.set("expert_shared_feed_forward_length", config.u32("shared_intermediate_size"));
}

void read_olmo2_config(const JsonObject& config, const std::string& arch, HfConfig& to) {
  read_llama_config(config, arch, to);
  if (!config.has("sliding_window")) return;
  HfKeys keys(to.metadata, arch);
  keys.set("attention.sliding_window", config.u32("sliding_window"));
  set_pattern(config, keys, 4);
}

void read_glm4moe_config(const JsonObject& config, const std::string& arch, HfConfig& to) {
  expect_hf_activation(config, "hidden_act", {"silu"});
  const uint32_t head_dim = read_hf_transformer(config, arch, to),
                 rotated = rotated_part(config, head_dim, 0.5);
  HfKeys keys(to.metadata, arch);
  keys.set("rope.dimension_count", rotated);
  keys.set("expert_count", config.u32("n_routed_experts"));
  keys.set("expert_used_count", config.u32("num_experts_per_tok"));
  keys.set("expert_feed_forward_length", config.u32("moe_intermediate_size"));
  keys.set("expert_shared_count", config.u32_or("n_shared_experts", 1));
  keys.set("leading_dense_block_count", config.u32_or("first_k_dense_replace", 1));
  keys.set("expert_gating_func", uint32_t{2});
  keys.set("expert_weights_norm", config.boolean_or("norm_topk_prob", true));
  keys.set("expert_weights_scale", config.f32_or("routed_scaling_factor", 1.0f));
  if (config.u32_or("n_group", 1) != 1) config.mismatch("n_group", "1");
  read_rope_config(config, arch, rotated, 1'000'000, to);
}

void read_minimax_config(const JsonObject& config, const std::string& arch, HfConfig& to) {
  expect_hf_activation(config, "hidden_act", {"silu"});
  expect_hf_activation(config, "scoring_func", {"sigmoid"});
  const uint32_t head_dim = read_hf_transformer(config, arch, to);
  const uint32_t rotated =
      config.has("rotary_dim") ? config.u32("rotary_dim") : rotated_part(config, head_dim, 0.5);
  HfKeys keys(to.metadata, arch);
  keys.set("rope.dimension_count", rotated);
  keys.set("expert_count", config.u32("num_local_experts"));
  keys.set("expert_used_count", config.u32("num_experts_per_tok"));
  keys.set("expert_feed_forward_length", config.u32("intermediate_size"));
  keys.set("expert_gating_func", uint32_t{2});
  read_rope_config(config, arch, rotated, 5'000'000, to);
}

namespace {

// Liquid's files may give a size from which the real one follows.
uint32_t lfm2_feed_forward(const JsonObject& config) {
  const uint32_t given =
      config.has("block_ff_dim") ? config.u32("block_ff_dim") : config.u32("intermediate_size");
  if (!config.boolean_or("block_auto_adjust_ff_dim", false)) return given;
  const double times = config.has("block_ffn_dim_multiplier") ? config.number("block_ffn_dim_multiplier") : 1;
  const uint32_t multiple = config.u32_or("block_multiple_of", 256);
  if (!(times > 0 && times < 1024)) config.mismatch("block_ffn_dim_multiplier", "a number from 0 to 1024");
  if (multiple == 0 || multiple > 65536) config.mismatch("block_multiple_of", "1 to 65536");
  const auto adjusted = static_cast<uint64_t>(times * static_cast<double>(uint64_t{2} * given / 3));
  return static_cast<uint32_t>((adjusted + multiple - 1) / multiple * multiple);
}

}  // namespace

void read_lfm2_config(const JsonObject& config, const std::string& arch, HfConfig& to) {
  const uint32_t head_dim = read_hf_transformer(config, arch, to);
  HfKeys keys(to.metadata, arch);
  keys.set("rope.dimension_count", head_dim);
  keys.set("shortconv.l_cache", config.u32("conv_L_cache"));
  std::vector<int32_t> kv_heads;
  for (const std::string& type : config.strings("layer_types"))
    kv_heads.push_back(type == "full_attention" ? static_cast<int32_t>(config.u32("num_key_value_heads"))
                                                : 0);
  keys.set("attention.head_count_kv", i32_array(std::move(kv_heads)));
  if (arch == "lfm2") {
    keys.set("feed_forward_length", lfm2_feed_forward(config));
  } else {
    keys.set("expert_count", config.u32("num_experts"));
    keys.set("expert_used_count", config.u32("num_experts_per_tok"));
    keys.set("expert_feed_forward_length", config.u32("moe_intermediate_size"));
    keys.set("leading_dense_block_count", config.u32_or("num_dense_layers", 0));
    keys.set("expert_gating_func", uint32_t{2});
    if (!config.boolean_or("norm_topk_prob", true)) config.mismatch("norm_topk_prob", "true");
    if (config.has("routed_scaling_factor") && config.number("routed_scaling_factor") != 1)
      keys.set("expert_weights_scale", config.f32("routed_scaling_factor"));
  }
  read_rope_config(config, arch, head_dim, 1'000'000, to);
}

void read_gpt_oss_config(const JsonObject& config, const std::string& arch, HfConfig& to) {
  expect_hf_activation(config, "hidden_act", {"silu"});
  const uint32_t head_dim = read_hf_transformer(config, arch, to);
  HfKeys keys(to.metadata, arch);
  keys.set("rope.dimension_count", head_dim);
  keys.set("attention.sliding_window", config.u32("sliding_window"));
  set_pattern(config, keys, 2);
  keys.set("expert_count", config.u32("num_local_experts"));
  keys.set("expert_used_count", config.u32("num_experts_per_tok"));
  keys.set("expert_feed_forward_length", config.u32("intermediate_size"));
  if (config.has("swiglu_limit") && config.number("swiglu_limit") != 7.0)
    config.mismatch("swiglu_limit", "7");
  read_rope_config(config, arch, head_dim, 150000, to);
}

void read_phi3_config(const JsonObject& config, const std::string& arch, HfConfig& to) {
  expect_hf_activation(config, "hidden_act", {"silu"});
  const uint32_t head_dim = read_hf_transformer(config, arch, to);
  const uint32_t rotated = rotated_part(config, head_dim, 1);
  HfKeys keys(to.metadata, arch);
  keys.set("rope.dimension_count", rotated);
  keys.set("rope.scaling.original_context_length",
           config.u32_or("original_max_position_embeddings", config.u32("max_position_embeddings")));
  keys.set("attention.sliding_window", config.u32_or("sliding_window", 0));
  read_rope_config(config, arch, rotated, 10000, to);
}

namespace {

// Multimodal files leave out what equals the defaults of the class; these are Gemma 3's.
nlohmann::json gemma3_defaults() {
  return {{"vocab_size", 262208},    {"hidden_size", 2304},      {"intermediate_size", 9216},
          {"num_hidden_layers", 26}, {"num_attention_heads", 8}, {"num_key_value_heads", 4},
          {"head_dim", 256},         {"rms_norm_eps", 1e-6},     {"max_position_embeddings", 131072},
          {"sliding_window", 4096}};
}

// GGUF has no key for what scores are divided by: readers know the two forms that published models have.
void expect_known_scale(const JsonObject& config, uint32_t head_dim, uint32_t large_layers) {
  const uint32_t heads = config.u32("num_attention_heads");
  if (heads == 0) config.mismatch("num_attention_heads", "at least 1");
  const uint32_t by_columns = config.u32("hidden_size") / heads;
  const uint32_t expected = config.u32("num_hidden_layers") == large_layers ? by_columns : head_dim;
  if (config.has("query_pre_attn_scalar") &&
      config.number("query_pre_attn_scalar") != static_cast<double>(expected))
    config.mismatch("query_pre_attn_scalar", std::to_string(expected));
}

void read_gemma_text(const JsonObject& config, const std::string& arch, HfConfig& to) {
  const bool third = arch == "gemma3";
  expect_hf_activation(config, "hidden_activation", {"gelu_pytorch_tanh"});
  const uint32_t head_dim = read_hf_transformer(config, arch, to);
  expect_known_scale(config, head_dim, third ? 62 : 46);
  HfKeys keys(to.metadata, arch);
  keys.set("attention.key_length", head_dim);
  keys.set("attention.value_length", head_dim);
  keys.set("attention.sliding_window", config.u32_or("sliding_window", 4096));
  if (third) set_pattern(config, keys, 6);
  if (config.has("attn_logit_softcapping"))
    keys.set("attn_logit_softcapping", config.f32("attn_logit_softcapping"));
  if (config.has("final_logit_softcapping"))
    keys.set("final_logit_softcapping", config.f32("final_logit_softcapping"));
  read_rope_config(config, arch, head_dim, third ? 1'000'000 : 10000, to);
}

}  // namespace

void read_gemma_config(const JsonObject& config, const std::string& arch, HfConfig& to) {
  if (arch != "gemma3") return read_gemma_text(config, arch, to);
  nlohmann::json merged = gemma3_defaults();
  const nlohmann::json* text = config.find("text_config");
  if (!text && config.has("num_hidden_layers")) return read_gemma_text(config, arch, to);
  if (text && text->is_object()) merged.update(*text);
  read_gemma_text(JsonObject(merged, config.file(), "text_config: "), arch, to);
}

void read_gpt2_config(const JsonObject& config, const std::string& arch, HfConfig& to) {
  expect_hf_activation(config, "activation_function", {"gelu_new", "gelu_pytorch_tanh"});
  HfKeys keys(to.metadata, arch);
  const uint32_t dim = config.u32("n_embd");
  if (config.has("vocab_size")) keys.set("vocab_size", config.u32("vocab_size"));
  keys.set("context_length", config.has("n_ctx") ? config.u32("n_ctx") : config.u32("n_positions"));
  keys.set("embedding_length", dim);
  keys.set("feed_forward_length",
           config.has("n_inner") ? config.u32("n_inner") : MetaValue(uint32_t{4} * dim));
  keys.set("block_count", config.u32("n_layer"));
  keys.set("attention.head_count", config.u32("n_head"));
  keys.set("attention.layer_norm_epsilon", config.f32_or("layer_norm_epsilon", 1e-5f));
}

}  // namespace butterfly::model
