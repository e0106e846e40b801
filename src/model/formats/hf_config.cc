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
  keys.set("feed_forward_length", config.u32("intermediate_size"));
  keys.set("attention.head_count", heads);
  keys.set("attention.head_count_kv", config.u32_or("num_key_value_heads", heads));
  keys.set("attention.layer_norm_rms_epsilon", config.f32("rms_norm_eps"));
  if (config.has("head_dim")) {
    keys.set("attention.key_length", head_dim);
    keys.set("attention.value_length", head_dim);
  }
  return head_dim;
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

void read_qwen3_config(const JsonObject& config, const std::string& arch, HfConfig& to) {
  expect_activation(config, "hidden_act", {"silu"});
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

void read_phi3_config(const JsonObject& config, const std::string& arch, HfConfig& to) {
  expect_activation(config, "hidden_act", {"silu"});
  const uint32_t head_dim = read_transformer(config, arch, to);
  const double share = config.has("partial_rotary_factor") ? config.number("partial_rotary_factor") : 1;
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
  return {{"vocab_size", 262208},
          {"hidden_size", 2304},
          {"intermediate_size", 9216},
          {"num_hidden_layers", 26},
          {"num_attention_heads", 8},
          {"num_key_value_heads", 4},
          {"head_dim", 256},
          {"rms_norm_eps", 1e-6},
          {"max_position_embeddings", 131072},
          {"rope_theta", 1'000'000},
          {"sliding_window", 4096},
          {"rope_local_base_freq", 10000},
          {"sliding_window_pattern", 6},
          {"query_pre_attn_scalar", 256}};
}

void read_gemma_text(const JsonObject& config, const std::string& arch, HfConfig& to) {
  expect_activation(config, "hidden_activation", {"gelu_pytorch_tanh"});
  const uint32_t head_dim = read_transformer(config, arch, to);
  Keys keys(to.metadata, arch);
  keys.set("attention.key_length", head_dim);
  keys.set("attention.value_length", head_dim);
  keys.set("attention.sliding_window", config.u32_or("sliding_window", 4096));
  if (config.has("attn_logit_softcapping"))
    keys.set("attn_logit_softcapping", config.f32("attn_logit_softcapping"));
  if (config.has("final_logit_softcapping"))
    keys.set("final_logit_softcapping", config.f32("final_logit_softcapping"));
  read_rope_config(config, arch, head_dim, 10000, to);
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
