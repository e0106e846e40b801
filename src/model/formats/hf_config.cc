// Readers of config.json: Hugging Face's numbers under GGUF's keys.
#include <algorithm>

#include "base/error.h"
#include "model/formats/hf_architecture.h"

namespace butterfly::model {
namespace {

// Writes "<arch>.<key>".
class Keys {
 public:
  Keys(Metadata& metadata, const std::string& arch) : metadata_(metadata), prefix_(arch + ".") {}
  void set(std::string_view key, MetaValue value) {
    metadata_.set(prefix_ + std::string(key), std::move(value));
  }

 private:
  Metadata& metadata_;
  std::string prefix_;
};

uint32_t head_size(const JsonObject& config, uint32_t heads) {
  if (config.has("head_dim")) return config.u32("head_dim");
  const uint32_t dim = config.u32("hidden_size");
  if (heads == 0 || dim % heads != 0)
    fail(Errc::kCorrupt, "{}: key hidden_size: {} columns do not divide into {} heads", config.file(), dim,
         heads);
  return dim / heads;
}

// What nearly all of them share. Returns the size of a head.
uint32_t read_transformer(const JsonObject& config, const std::string& arch, HfConfig& to) {
  Keys keys(to.metadata, arch);
  const uint32_t heads = config.u32("num_attention_heads");
  const uint32_t head_dim = head_size(config, heads);
  if (config.has("vocab_size")) keys.set("vocab_size", config.u32("vocab_size"));
  keys.set("context_length", config.u32("max_position_embeddings"));
  keys.set("embedding_length", config.u32("hidden_size"));
  keys.set("block_count", config.u32("num_hidden_layers"));
  // Where all layers have experts some leave it out.
  keys.set("feed_forward_length", config.has("intermediate_size") ? config.u32("intermediate_size")
                                                                  : config.u32("moe_intermediate_size"));
  keys.set("attention.head_count", heads);
  keys.set("attention.head_count_kv", config.u32_or("num_key_value_heads", heads));
  keys.set("attention.layer_norm_rms_epsilon", config.f32("rms_norm_eps"));
  if (config.has("head_dim")) {
    keys.set("attention.key_length", head_dim);
    keys.set("attention.value_length", head_dim);
  }
  return head_dim;
}

// Which layers see a window, where that is not what every reader takes for granted: all but each `usual`-th.
void set_pattern(const JsonObject& config, Keys& keys, uint32_t usual) {
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

void expect_activation(const JsonObject& config, std::string_view key,
                       std::initializer_list<std::string_view> known) {
  if (!config.has(key)) return;
  const std::string found = config.string(key);
  for (const std::string_view name : known)
    if (found == name) return;
  config.mismatch(key, *known.begin());
}

}  // namespace

void read_llama_config(const JsonObject& config, const std::string& arch, HfConfig& to) {
  expect_activation(config, "hidden_act", {"silu", "swish"});
  const uint32_t head_dim = read_transformer(config, arch, to);
  Keys keys(to.metadata, arch);
  keys.set("rope.dimension_count", head_dim);
  if (config.has("num_local_experts")) {
    keys.set("expert_count", config.u32("num_local_experts"));
    keys.set("expert_used_count", config.u32("num_experts_per_tok"));
  }
  read_rope_config(config, arch, head_dim, 10000, to);
}

void read_mistral_config(const JsonObject& config, const std::string& arch, HfConfig& to) {
  read_llama_config(config, arch, to);
  if (config.has("sliding_window"))
    Keys(to.metadata, arch).set("attention.sliding_window", config.u32("sliding_window"));
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
  expect_activation(config, "hidden_act", {"silu"});
  expect_no_window(config);
  const uint32_t head_dim = read_transformer(config, arch, to);
  Keys keys(to.metadata, arch);
  keys.set("attention.key_length", head_dim);
  keys.set("attention.value_length", head_dim);
  if (arch == "qwen3moe") {
    keys.set("expert_count", config.u32("num_experts"));
    keys.set("expert_used_count", config.u32("num_experts_per_tok"));
    keys.set("expert_feed_forward_length", config.u32("moe_intermediate_size"));
  }
  read_rope_config(config, arch, head_dim, 10000, to);
}

namespace {

// The rotated part of a head, and how its pairs are shared out to time, height and width.
void read_partial_rope(const JsonObject& config, const std::string& arch, uint32_t head_dim, HfConfig& to) {
  const auto parameters = config.object("rope_parameters");
  const JsonObject& place = parameters && parameters->has("partial_rotary_factor") ? *parameters : config;
  const double share = place.has("partial_rotary_factor") ? place.number("partial_rotary_factor") : 0.25;
  const auto rotated = static_cast<uint32_t>(std::clamp(share, 0.0, 1.0) * head_dim);
  Keys keys(to.metadata, arch);
  keys.set("rope.dimension_count", rotated);
  if (arch != "qwen3next") {
    std::vector<int32_t> sections = {11, 11, 10};
    if (parameters && parameters->has("mrope_section")) {
      sections.clear();
      for (const float pairs : parameters->numbers("mrope_section"))
        sections.push_back(static_cast<int32_t>(pairs));
    }
    sections.resize(4, 0);
    keys.set("rope.dimension_sections", i32_array(std::move(sections)));
  }
  read_rope_config(config, arch, rotated, 10'000'000, to);
}

void read_qwen35_text(const JsonObject& config, const std::string& arch, HfConfig& to) {
  expect_activation(config, "hidden_act", {"silu"});
  const uint32_t head_dim = read_transformer(config, arch, to);
  Keys keys(to.metadata, arch);
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
  const nlohmann::json* text = config.find("text_config");
  if (text == nullptr || !text->is_object()) return read_qwen35_text(config, arch, to);
  read_qwen35_text(JsonObject(*text, config.file(), "text_config: "), arch, to);
}

void read_gpt_oss_config(const JsonObject& config, const std::string& arch, HfConfig& to) {
  expect_activation(config, "hidden_act", {"silu"});
  const uint32_t head_dim = read_transformer(config, arch, to);
  Keys keys(to.metadata, arch);
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
  expect_activation(config, "hidden_act", {"silu"});
  const uint32_t head_dim = read_transformer(config, arch, to);
  const auto parameters = config.object("rope_parameters");
  const JsonObject& place = parameters && parameters->has("partial_rotary_factor") ? *parameters : config;
  const double share = place.has("partial_rotary_factor") ? place.number("partial_rotary_factor") : 1;
  const auto rotated = static_cast<uint32_t>(std::clamp(share, 0.0, 1.0) * head_dim);
  Keys keys(to.metadata, arch);
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
  expect_activation(config, "hidden_activation", {"gelu_pytorch_tanh"});
  const uint32_t head_dim = read_transformer(config, arch, to);
  expect_known_scale(config, head_dim, third ? 62 : 46);
  Keys keys(to.metadata, arch);
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
  expect_activation(config, "activation_function", {"gelu_new", "gelu_pytorch_tanh"});
  Keys keys(to.metadata, arch);
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
