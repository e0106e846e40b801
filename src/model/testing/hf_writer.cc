#include "model/testing/hf_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/json_text.h"
#include "model/tokenizer/byte_level.h"

namespace butterfly::model::testing {
namespace {

using Json = nlohmann::ordered_json;

struct Values {
  std::vector<int64_t> sizes;
  std::vector<float> floats;
};
using Weights = std::map<std::string, Values>;

Values values_of(const Tensor& tensor) {
  BF_CHECK(tensor.dtype() == DType::kF32);
  Values values;
  for (size_t axis = 0; axis < tensor.rank(); ++axis) values.sizes.push_back(tensor.size(axis));
  values.floats.assign(tensor.data<float>(), tensor.data<float>() + tensor.count());
  return values;
}

// A head's rows (pair 0 first, pair 0 second, pair 1 first, ...) to (all firsts, all seconds).
Values halves_of_heads(const Values& from, uint32_t heads) {
  Values to = from;
  const auto rows = static_cast<size_t>(from.sizes[0]);
  const size_t columns = from.floats.size() / rows, head = rows / heads;
  for (size_t row = 0; row < rows; ++row) {
    const size_t in_head = row % head;
    const size_t target = row - in_head + in_head / 2 + (in_head % 2) * (head / 2);
    std::copy_n(from.floats.begin() + static_cast<ptrdiff_t>(row * columns), columns,
                to.floats.begin() + static_cast<ptrdiff_t>(target * columns));
  }
  return to;
}

Values transposed(const Values& from) {
  Values to{{from.sizes[1], from.sizes[0]}, std::vector<float>(from.floats.size())};
  const auto rows = static_cast<size_t>(from.sizes[0]), columns = static_cast<size_t>(from.sizes[1]);
  for (size_t r = 0; r < rows; ++r)
    for (size_t c = 0; c < columns; ++c) to.floats[c * rows + r] = from.floats[r * columns + c];
  return to;
}

Values less_one(Values values) {
  for (float& value : values.floats) value -= 1.0f;
  return values;
}

// Linear attention's sizes.
struct DeltaHeads {
  size_t keys = 0, values = 0, dim = 0;
  size_t group() const { return values / keys; }
};

// Units of rows by value head: from "first of each group, second of each group" to group by group. The first
// `skip` rows stay.
Values by_group(const Values& from, const DeltaHeads& heads, size_t skip) {
  Values to = from;
  const auto rows = static_cast<size_t>(from.sizes[0]);
  const size_t columns = from.floats.size() / rows, unit = (rows - skip) / heads.values;
  for (size_t head = 0; head < heads.values; ++head) {
    const size_t source = head % heads.group() * heads.keys + head / heads.group();
    std::copy_n(from.floats.begin() + static_cast<ptrdiff_t>((skip + source * unit) * columns),
                unit * columns, to.floats.begin() + static_cast<ptrdiff_t>((skip + head * unit) * columns));
  }
  return to;
}

// Queries, keys and values, and the gates: key head by key head.
Values qkvz_of(const Values& qkv, const Values& z, const DeltaHeads& heads) {
  const auto columns = static_cast<size_t>(qkv.sizes[1]);
  Values all{{qkv.sizes[0] + z.sizes[0], qkv.sizes[1]}, {}};
  const auto append = [&](const Values& from, size_t first, size_t count) {
    const auto begin = from.floats.begin() + static_cast<ptrdiff_t>(first * columns);
    all.floats.insert(all.floats.end(), begin, begin + static_cast<ptrdiff_t>(count * columns));
  };
  const size_t keys = heads.keys * heads.dim, group = heads.group() * heads.dim;
  for (size_t head = 0; head < heads.keys; ++head) {
    append(qkv, head * heads.dim, heads.dim);
    append(qkv, keys + head * heads.dim, heads.dim);
    append(qkv, 2 * keys + head * group, group);
    append(z, head * group, group);
  }
  return all;
}

Values expert_of(const Values& stack, size_t expert) {
  const size_t count = stack.floats.size() / static_cast<size_t>(stack.sizes[0]);
  const auto begin = stack.floats.begin() + static_cast<ptrdiff_t>(expert * count);
  return {{stack.sizes[1], stack.sizes[2]}, {begin, begin + static_cast<ptrdiff_t>(count)}};
}

// Names as Hugging Face's classes have them, for GGUF's part of a name between "blk.N." and ".weight".
using Names = std::map<std::string, std::string>;
const Names kLlamaNames = {{"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
                           {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
                           {"attn_output", "self_attn.o_proj"}, {"attn_q_norm", "self_attn.q_norm"},
                           {"attn_k_norm", "self_attn.k_norm"}, {"ffn_norm", "post_attention_layernorm"},
                           {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
                           {"ffn_down", "mlp.down_proj"}};
const Names kMixtralNames = {{"ffn_gate_inp", "block_sparse_moe.gate"},
                             {"ffn_gate_exps", "block_sparse_moe.experts.@.w1"},
                             {"ffn_down_exps", "block_sparse_moe.experts.@.w2"},
                             {"ffn_up_exps", "block_sparse_moe.experts.@.w3"}};
const Names kQwenMoeNames = {{"ffn_gate_inp", "mlp.gate"},
                             {"ffn_gate_exps", "mlp.experts.@.gate_proj"},
                             {"ffn_down_exps", "mlp.experts.@.down_proj"},
                             {"ffn_up_exps", "mlp.experts.@.up_proj"}};
const Names kDeltaNames = {{"attn_qkv", "linear_attn.in_proj_qkv"},
                           {"attn_gate", "linear_attn.in_proj_z"},
                           {"ssm_conv1d", "linear_attn.conv1d"},
                           {"ssm_beta", "linear_attn.in_proj_b"},
                           {"ssm_alpha", "linear_attn.in_proj_a"},
                           {"ssm_ba", "linear_attn.in_proj_ba"},
                           {"ssm_norm", "linear_attn.norm"},
                           {"ssm_out", "linear_attn.out_proj"},
                           {"post_attention_norm", "post_attention_layernorm"},
                           {"ffn_gate_inp", "mlp.gate"},
                           {"ffn_gate_exps", "mlp.experts.@.gate_proj"},
                           {"ffn_down_exps", "mlp.experts.@.down_proj"},
                           {"ffn_up_exps", "mlp.experts.@.up_proj"},
                           {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
                           {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
                           {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
                           {"ffn_down_shexp", "mlp.shared_expert.down_proj"}};
const Names kGptOssNames = {{"attn_sinks", "self_attn.sinks"},
                            {"post_attention_norm", "post_attention_layernorm"},
                            {"ffn_gate_inp", "mlp.router"}};
const Names kGraniteNames = {{"ffn_gate_inp", "block_sparse_moe.router.layer"},
                             {"ffn_down_exps", "block_sparse_moe.output_linear"},
                             {"ffn_down_shexp", "shared_mlp.output_linear"}};
const Names kOlmoNames = {{"post_attention_norm", "post_attention_layernorm"},
                          {"post_ffw_norm", "post_feedforward_layernorm"}};
const Names kGlm4MoeNames = {{"post_attention_norm", "post_attention_layernorm"},
                             {"exp_probs_b", "mlp.gate.e_score_correction_bias"},
                             {"ffn_gate_inp", "mlp.gate"},
                             {"ffn_gate_exps", "mlp.experts.@.gate_proj"},
                             {"ffn_down_exps", "mlp.experts.@.down_proj"},
                             {"ffn_up_exps", "mlp.experts.@.up_proj"},
                             {"ffn_gate_shexp", "mlp.shared_experts.gate_proj"},
                             {"ffn_up_shexp", "mlp.shared_experts.up_proj"},
                             {"ffn_down_shexp", "mlp.shared_experts.down_proj"}};
const Names kMiniMaxNames = {{"exp_probs_b", "block_sparse_moe.e_score_correction_bias"},
                             {"ffn_gate_inp", "block_sparse_moe.gate"},
                             {"ffn_gate_exps", "block_sparse_moe.experts.@.w1"},
                             {"ffn_down_exps", "block_sparse_moe.experts.@.w2"},
                             {"ffn_up_exps", "block_sparse_moe.experts.@.w3"}};
const Names kLfm2Names = {{"attn_norm", "operator_norm"},
                          {"ffn_norm", "ffn_norm"},
                          {"attn_output", "self_attn.out_proj"},
                          {"attn_q_norm", "self_attn.q_layernorm"},
                          {"attn_k_norm", "self_attn.k_layernorm"},
                          {"shortconv.in_proj", "conv.in_proj"},
                          {"shortconv.conv", "conv.conv"},
                          {"shortconv.out_proj", "conv.out_proj"},
                          {"ffn_gate", "feed_forward.w1"},
                          {"ffn_down", "feed_forward.w2"},
                          {"ffn_up", "feed_forward.w3"},
                          {"ffn_gate_inp", "feed_forward.gate"},
                          {"exp_probs_b", "feed_forward.expert_bias"},
                          {"ffn_gate_exps", "feed_forward.experts.@.w1"},
                          {"ffn_down_exps", "feed_forward.experts.@.w2"},
                          {"ffn_up_exps", "feed_forward.experts.@.w3"}};
const Names kPhi3Names = {{"attn_qkv", "self_attn.qkv_proj"}, {"ffn_up", "mlp.gate_up_proj"}};
const Names kGemmaNames = {{"post_attention_norm", "post_attention_layernorm"},
                           {"ffn_norm", "pre_feedforward_layernorm"},
                           {"post_ffw_norm", "post_feedforward_layernorm"}};
const Names kGpt2Names = {{"attn_norm", "ln_1"}, {"attn_qkv", "attn.c_attn"}, {"attn_output", "attn.c_proj"},
                          {"ffn_norm", "ln_2"},  {"ffn_up", "mlp.c_fc"},      {"ffn_down", "mlp.c_proj"}};

const Names kGemma4Names = {{"post_attention_norm", "post_attention_layernorm"},
                            {"ffn_norm", "pre_feedforward_layernorm"},
                            {"post_ffw_norm", "post_feedforward_layernorm"},
                            {"layer_output_scale", "layer_scalar"},
                            {"inp_gate", "per_layer_input_gate"},
                            {"proj", "per_layer_projection"},
                            {"post_norm", "post_per_layer_input_norm"}};
const Names kNemotronNames = {{"attn_norm", "norm"},
                              {"ssm_in", "mixer.in_proj"},
                              {"ssm_conv1d", "mixer.conv1d"},
                              {"ssm_dt", "mixer.dt_bias"},
                              {"ssm_a", "mixer.A_log"},
                              {"ssm_d", "mixer.D"},
                              {"ssm_norm", "mixer.norm"},
                              {"ssm_out", "mixer.out_proj"},
                              {"attn_q", "mixer.q_proj"},
                              {"attn_k", "mixer.k_proj"},
                              {"attn_v", "mixer.v_proj"},
                              {"attn_output", "mixer.o_proj"},
                              {"ffn_up", "mixer.up_proj"},
                              {"ffn_down", "mixer.down_proj"},
                              {"ffn_gate_inp", "mixer.gate"},
                              {"exp_probs_b", "mixer.gate.e_score_correction_bias"},
                              {"ffn_up_exps", "mixer.experts.@.up_proj"},
                              {"ffn_down_exps", "mixer.experts.@.down_proj"},
                              {"ffn_up_shexp", "mixer.shared_experts.up_proj"},
                              {"ffn_down_shexp", "mixer.shared_experts.down_proj"}};
const Names kGraniteHybridNames = {{"ssm_in", "mamba.in_proj"},  {"ssm_conv1d", "mamba.conv1d"},
                                   {"ssm_dt", "mamba.dt_bias"},  {"ssm_a", "mamba.A_log"},
                                   {"ssm_d", "mamba.D"},         {"ssm_norm", "mamba.norm"},
                                   {"ssm_out", "mamba.out_proj"}};
const Names kDeepseekNames = {{"attn_q_a", "self_attn.q_a_proj"},
                              {"attn_q_a_norm", "self_attn.q_a_layernorm"},
                              {"attn_q_b", "self_attn.q_b_proj"},
                              {"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"},
                              {"attn_kv_a_norm", "self_attn.kv_a_layernorm"}};

// Those of the class first, then those most classes share.
std::string name_in_block(const std::string& class_name, const std::string& part) {
  const std::pair<const char*, const Names*> own[] = {{"Qwen3_5", &kDeltaNames},
                                                      {"Qwen3Next", &kDeltaNames},
                                                      {"Mixtral", &kMixtralNames},
                                                      {"Qwen3Moe", &kQwenMoeNames},
                                                      {"Phi3", &kPhi3Names},
                                                      {"Gemma4", &kGemma4Names},
                                                      {"Gemma", &kGemmaNames},
                                                      {"NemotronH", &kNemotronNames},
                                                      {"GraniteMoeHybrid", &kGraniteHybridNames},
                                                      {"DeepseekV", &kDeepseekNames},
                                                      {"DeepseekV", &kGlm4MoeNames},
                                                      {"GPT2", &kGpt2Names},
                                                      {"GptOss", &kGptOssNames},
                                                      {"GraniteMoe", &kGraniteNames},
                                                      {"Lfm2", &kLfm2Names},
                                                      {"Olmo", &kOlmoNames},
                                                      {"Glm4Moe", &kGlm4MoeNames},
                                                      {"MiniMaxM2", &kMiniMaxNames},
                                                      {"Qwen3VLMoe", &kQwenMoeNames},
                                                      {"", &kLlamaNames}};
  for (const auto& [prefix, names] : own)
    if (class_name.starts_with(prefix))
      if (const auto at = names->find(part); at != names->end()) return at->second;
  fail(Errc::kUnsupported, "{} has no tensor {}", class_name, part);
}

class Writer {
 public:
  Writer(const ModelFile& from, const HfWriteOptions& options)
      : from_(from), options_(options), arch_(from.architecture()) {}

  Weights weights() const {
    Weights all;
    for (const NamedTensor& tensor : from_.tensors())
      add(tensor.name, values_of(from_.tensor(tensor.name)), all);
    return all;
  }

  Json config() const {
    Json json = {{"architectures", {options_.class_name}},
                 {"tie_word_embeddings", !from_.has("output.weight")}};
    json["vocab_size"] = key("vocab_size");
    if (arch_ == "gpt2") {
      json.update({{"n_embd", key("embedding_length")},
                   {"n_layer", key("block_count")},
                   {"n_head", key("attention.head_count")},
                   {"n_ctx", key("context_length")},
                   {"n_positions", key("context_length")},
                   {"n_inner", key("feed_forward_length")},
                   {"activation_function", "gelu_new"},
                   {"layer_norm_epsilon", number("attention.layer_norm_epsilon")}});
      return json;
    }
    json.update({{"hidden_size", key("embedding_length")},
                 {"num_hidden_layers", key("block_count")},
                 {"num_attention_heads", key("attention.head_count")},
                 {"num_key_value_heads", kv_heads()},
                 {"max_position_embeddings", key("context_length")},
                 {"intermediate_size", most("feed_forward_length")},
                 {"rms_norm_eps", number("attention.layer_norm_rms_epsilon")},
                 {"rope_theta", number("rope.freq_base")}});
    const bool gemma = arch_.starts_with("gemma");
    json[gemma ? "hidden_activation" : "hidden_act"] = gemma ? "gelu_pytorch_tanh" : "silu";
    if (has("attention.key_length") || gemma || arch_.starts_with("qwen3")) json["head_dim"] = head_dim();
    if (has("attention.sliding_window")) json["sliding_window"] = key("attention.sliding_window");
    add_experts(json);
    add_rope(json);
    if (delta()) add_delta(json);
    if (arch_ == "gemma2") {
      json["attn_logit_softcapping"] = number("attn_logit_softcapping");
      json["final_logit_softcapping"] = number("final_logit_softcapping");
    }
    if (old_gemma()) json["query_pre_attn_scalar"] = head_dim();
    if (arch_ == "gemma4") add_gemma4(json);
    if (mamba()) add_mamba(json);
    if (arch_ == "deepseek2") add_deepseek(json);
    add_others(json);
    if (!options_.class_name.ends_with("ForConditionalGeneration")) return json;
    Json text = json;
    text.erase("architectures");
    return {{"architectures", json["architectures"]},
            {"tie_word_embeddings", json["tie_word_embeddings"]},
            {"text_config", text}};
  }

 private:
  bool has(const char* name) const { return from_.metadata().has(arch_ + "." + name); }
  uint32_t key(const char* name) const { return from_.metadata().u32(arch_ + "." + name); }
  // As JSON has it: the shortest text that gives the float again.
  Json number(const char* name) const {
    return json_of_text<Json>(fmt::format("{}", from_.metadata().f32(arch_ + "." + name)));
  }
  uint32_t head_dim() const {
    return has("attention.key_length") ? key("attention.key_length")
                                       : key("embedding_length") / key("attention.head_count");
  }

  bool is_list(const char* name) const {
    return std::holds_alternative<MetaArray>(*from_.metadata().find(arch_ + "." + name));
  }
  std::vector<int32_t> list(const char* name) const { return from_.metadata().i32s(arch_ + "." + name); }
  // One number, or the largest of a list.
  uint32_t most(const char* name) const {
    if (!is_list(name)) return key(name);
    const auto numbers = list(name);
    return static_cast<uint32_t>(*std::max_element(numbers.begin(), numbers.end()));
  }
  uint32_t kv_heads() const { return most("attention.head_count_kv"); }

  void add_experts(Json& json) const {
    if (!has("expert_count")) return;
    const bool qwen = arch_.starts_with("qwen");
    json[qwen ? "num_experts" : "num_local_experts"] = key("expert_count");
    json["num_experts_per_tok"] = key("expert_used_count");
    if (qwen) json["moe_intermediate_size"] = key("expert_feed_forward_length");
  }

  bool delta() const { return has("full_attention_interval"); }
  bool mamba() const { return has("ssm.state_size") && !delta(); }
  bool old_gemma() const { return arch_.starts_with("gemma") && arch_ != "gemma4"; }
  DeltaHeads delta_heads() const {
    return {key("ssm.group_count"), key("ssm.time_step_rank"), key("ssm.state_size")};
  }
  void add_delta(Json& json) const {
    json.update({{"linear_conv_kernel_dim", key("ssm.conv_kernel")},
                 {"linear_key_head_dim", key("ssm.state_size")},
                 {"linear_value_head_dim", key("ssm.state_size")},
                 {"linear_num_key_heads", key("ssm.group_count")},
                 {"linear_num_value_heads", key("ssm.time_step_rank")},
                 {"full_attention_interval", key("full_attention_interval")}});
    if (has("expert_count"))
      json["shared_expert_intermediate_size"] = key("expert_shared_feed_forward_length");
    Json rope = {{"rope_theta", json["rope_theta"]},
                 {"rope_type", "default"},
                 {"partial_rotary_factor", static_cast<double>(key("rope.dimension_count")) / head_dim()}};
    json.erase("rope_theta");
    if (has("rope.dimension_sections")) {
      auto sections = from_.metadata().i32s(arch_ + ".rope.dimension_sections");
      sections.resize(3);
      rope["mrope_section"] = sections;
    }
    json["rope_parameters"] = rope;
  }

  void add_gemma4(Json& json) const {
    json["head_dim"] = key("attention.key_length_swa");
    json["global_head_dim"] = key("attention.key_length");
    const auto windows = std::get<std::vector<uint8_t>>(
        std::get<MetaArray>(*from_.metadata().find("gemma4.attention.sliding_window_pattern")).elements);
    for (const uint8_t window : windows)
      json["layer_types"].push_back(window != 0 ? "sliding_attention" : "full_attention");
    const auto widths = list("feed_forward_length");
    json["intermediate_size"] = widths.front();
    json["use_double_wide_mlp"] = widths.back() != widths.front();
    json["num_kv_shared_layers"] = key("attention.shared_kv_layers");
    json["hidden_size_per_layer_input"] = key("embedding_length_per_layer_input");
    json["final_logit_softcapping"] = number("final_logit_softcapping");
    json.erase("rope_theta");
    json["rope_parameters"] = {
        {"full_attention", {{"rope_theta", number("rope.freq_base")}, {"partial_rotary_factor", 1.0}}},
        {"sliding_attention", {{"rope_theta", number("rope.freq_base_swa")}}}};
  }

  void add_mamba(Json& json) const {
    const bool nemotron = arch_.starts_with("nemotron");
    const auto kv = list("attention.head_count_kv");
    json[nemotron ? "mamba_num_heads" : "mamba_n_heads"] = key("ssm.time_step_rank");
    json[nemotron ? "mamba_head_dim" : "mamba_d_head"] = key("ssm.inner_size") / key("ssm.time_step_rank");
    json[nemotron ? "n_groups" : "mamba_n_groups"] = key("ssm.group_count");
    json[nemotron ? "ssm_state_size" : "mamba_d_state"] = key("ssm.state_size");
    json[nemotron ? "conv_kernel" : "mamba_d_conv"] = key("ssm.conv_kernel");
    if (!nemotron) {
      for (const int32_t heads : kv) json["layer_types"].push_back(heads == 0 ? "mamba" : "attention");
      json["position_embedding_type"] = "nope";
      json["shared_intermediate_size"] = key("expert_shared_feed_forward_length");
      return;
    }
    json["layer_norm_epsilon"] = number("attention.layer_norm_epsilon");
    json["mlp_hidden_act"] = "relu2";
    std::string pattern;
    const auto widths = list("feed_forward_length");
    const bool experts = has("expert_count");
    for (size_t i = 0; i < kv.size(); ++i)
      pattern += widths[i] > 0 ? (experts ? 'E' : '-') : kv[i] > 0 ? '*' : 'M';
    json["hybrid_override_pattern"] = pattern;
    if (!experts) return;
    json.erase("num_local_experts");
    json.update({{"n_routed_experts", key("expert_count")},
                 {"n_shared_experts", key("expert_shared_count")},
                 {"moe_intermediate_size", key("expert_feed_forward_length")},
                 {"moe_shared_expert_intermediate_size", key("expert_shared_feed_forward_length")},
                 {"norm_topk_prob", true}});
  }

  void add_deepseek(Json& json) const {
    json.erase("num_local_experts");
    json.erase("head_dim");
    const uint32_t rotated = key("rope.dimension_count");
    json.update({{"q_lora_rank", key("attention.q_lora_rank")},
                 {"kv_lora_rank", key("attention.kv_lora_rank")},
                 {"qk_rope_head_dim", rotated},
                 {"qk_nope_head_dim", key("attention.key_length_mla") - rotated},
                 {"v_head_dim", key("attention.value_length_mla")},
                 {"n_routed_experts", key("expert_count")},
                 {"n_shared_experts", key("expert_shared_count")},
                 {"first_k_dense_replace", key("leading_dense_block_count")},
                 {"moe_intermediate_size", key("expert_feed_forward_length")},
                 {"scoring_func", "sigmoid"},
                 {"norm_topk_prob", true}});
    if (has("expert_group_count")) {
      json["n_group"] = key("expert_group_count");
      json["topk_group"] = key("expert_group_used_count");
    }
    json["rope_scaling"]["mscale_all_dim"] = 0.707;
  }

  // Keys and values of a head below one another, from the latent; false: another part.
  bool add_latent_part(const std::string& number, const std::string& part, Weights& all) const {
    if (part != "attn_k_b" && part != "attn_v_b") return false;
    const std::string block = "blk." + number + ".";
    const Values keys = values_of(from_.tensor(block + "attn_k_b.weight")),
                 values = values_of(from_.tensor(block + "attn_v_b.weight"));
    const auto heads = static_cast<size_t>(keys.sizes[0]), latent = static_cast<size_t>(keys.sizes[1]),
               plain = static_cast<size_t>(keys.sizes[2]), value = static_cast<size_t>(values.sizes[1]);
    Values to{{static_cast<int64_t>(heads * (plain + value)), static_cast<int64_t>(latent)}, {}};
    for (size_t head = 0; head < heads; ++head) {
      for (size_t row = 0; row < plain; ++row)
        for (size_t c = 0; c < latent; ++c)
          to.floats.push_back(keys.floats[(head * latent + c) * plain + row]);
      const auto begin = values.floats.begin() + static_cast<ptrdiff_t>(head * value * latent);
      to.floats.insert(to.floats.end(), begin, begin + static_cast<ptrdiff_t>(value * latent));
    }
    all[options_.prefix + "layers." + number + ".self_attn.kv_b_proj.weight"] = std::move(to);
    return true;
  }

  // What single architectures have.
  void add_others(Json& json) const {
    constexpr std::pair<const char*, const char*> kNumbers[] = {
        {"attention.scale", "attention_multiplier"},
        {"embedding_scale", "embedding_multiplier"},
        {"residual_scale", "residual_multiplier"},
        {"logit_scale", "logits_scaling"},
        {"expert_weights_scale", "routed_scaling_factor"}};
    for (const auto& [name, to] : kNumbers)
      if (has(name)) json[to] = number(name);
    if (arch_ == "granitemoe") json["shared_intermediate_size"] = key("expert_shared_feed_forward_length");
    if (arch_.starts_with("lfm2")) {
      json["conv_L_cache"] = key("shortconv.l_cache");
      for (const int32_t heads : from_.metadata().i32s(arch_ + ".attention.head_count_kv"))
        json["layer_types"].push_back(heads == 0 ? "conv" : "full_attention");
      json["norm_eps"] = json["rms_norm_eps"];
      json.erase("rms_norm_eps");
      if (arch_ == "lfm2moe") {
        json["num_experts"] = key("expert_count");
        json["moe_intermediate_size"] = key("expert_feed_forward_length");
        json["num_dense_layers"] = key("leading_dense_block_count");
      }
    }
    if (arch_ == "minimax-m2") json["rotary_dim"] = key("rope.dimension_count");
    if (arch_ == "mistral3") {
      json["rope_scaling"]["mscale_all_dim"] = number("rope.scaling.yarn_log_multiplier");
      json["rope_scaling"]["llama_4_scaling_beta"] = number("attention.temperature_scale");
      json["rope_parameters"] = json["rope_scaling"];
      json.erase("rope_scaling");
    }
    if (arch_.starts_with("qwen3vl")) {
      auto sections = from_.metadata().i32s(arch_ + ".rope.dimension_sections");
      sections.resize(3);
      json["rope_scaling"] = {{"rope_type", "default"}, {"mrope_section", sections}};
    }
    if (arch_ != "glm4moe") return;
    json.erase("num_local_experts");
    json.update({{"n_routed_experts", key("expert_count")},
                 {"n_shared_experts", key("expert_shared_count")},
                 {"first_k_dense_replace", key("leading_dense_block_count")},
                 {"norm_topk_prob", true},
                 {"moe_intermediate_size", key("expert_feed_forward_length")},
                 {"partial_rotary_factor", static_cast<double>(key("rope.dimension_count")) / head_dim()}});
  }

  // Values of linear attention; false: another part.
  bool add_delta_part(const std::string& number, const std::string& part, Values& values,
                      Weights& all) const {
    const DeltaHeads heads = delta_heads();
    const bool tiled = arch_ != "qwen3next";
    const std::string place = options_.prefix + "layers." + number + ".linear_attn.";
    if (part == "ssm_a") {
      for (float& value : values.floats) value = std::log(-value);
      all[place + "A_log"] = tiled ? by_group(values, heads, 0) : values;
      return true;
    }
    if (part == "ssm_dt") {
      all[place + "dt_bias"] = tiled ? by_group(values, heads, 0) : values;
      return true;
    }
    if (!tiled && (part == "attn_qkv" || part == "attn_gate") &&
        from_.has("blk." + number + ".attn_gate.weight")) {
      const std::string block = "blk." + number + ".";
      all[place + "in_proj_qkvz.weight"] =
          qkvz_of(values_of(from_.tensor(block + "attn_qkv.weight")),
                  values_of(from_.tensor(block + "attn_gate.weight")), heads);
      return true;
    }
    if (tiled && (part == "attn_qkv" || part == "ssm_conv1d"))
      values = by_group(values, heads, 2 * heads.keys * heads.dim);
    if (tiled && (part == "attn_gate" || part == "ssm_beta" || part == "ssm_alpha"))
      values = by_group(values, heads, 0);
    if (tiled && part == "ssm_out") values = transposed(by_group(transposed(values), heads, 0));
    if (part == "ssm_conv1d") values.sizes = {values.sizes[0], 1, values.sizes[1]};
    if (part == "ffn_gate_inp_shexp") values.sizes = {1, values.sizes[0]};
    if (part.ends_with("norm") && part != "ssm_norm") values = less_one(std::move(values));
    return false;
  }

  // Experts in one tensor: gates and outputs by turns, matrices the other way round.
  bool add_gpt_oss_experts(const std::string& number, const std::string& part, const std::string& ending,
                           const Values& values, Weights& all) const {
    if (!part.ends_with("_exps")) return false;
    const bool down = part == "ffn_down_exps", bias = ending == ".bias";
    const size_t rows = static_cast<size_t>(values.sizes[1]),
                 columns = bias ? 1 : static_cast<size_t>(values.sizes[2]);
    const size_t step = down ? 1 : 2, first = part == "ffn_up_exps" ? 1 : 0;
    Values& to = all[options_.prefix + "layers." + number + ".mlp.experts." +
                     (down ? "down_proj" : "gate_up_proj") + (bias ? "_bias" : "")];
    const auto wide = static_cast<int64_t>(step * rows);
    to.sizes = bias ? std::vector<int64_t>{values.sizes[0], wide}
                    : std::vector<int64_t>{values.sizes[0], values.sizes[2], wide};
    to.floats.resize(values.floats.size() * step);
    for (size_t e = 0; e < static_cast<size_t>(values.sizes[0]); ++e)
      for (size_t row = 0; row < rows; ++row)
        for (size_t column = 0; column < columns; ++column)
          to.floats[(e * columns + column) * step * rows + first + row * step] =
              values.floats[(e * rows + row) * columns + column];
    return true;
  }

  // Gates and outputs in one tensor, the first half of its rows and the second; the other way round in
  // Qwen's.
  bool add_halves(const std::string& number, const std::string& part, const Values& values,
                  Weights& all) const {
    const bool qwen = arch_ == "qwen3vlmoe", down = part == "ffn_down_exps";
    const bool shared = part.ends_with("_shexp");
    if (!(part.ends_with("_exps") || shared) || (!qwen && part.starts_with("ffn_down"))) return false;
    if (arch_ != "granitemoe" && arch_ != "granitehybrid" && !qwen) return false;
    const std::string place = options_.prefix + "layers." + number + ".";
    const size_t experts = shared ? 1 : static_cast<size_t>(values.sizes[0]);
    const size_t rows = static_cast<size_t>(values.sizes[shared ? 0 : 1]),
                 columns = static_cast<size_t>(values.sizes.back());
    const size_t parts = down ? 1 : 2, first = part.starts_with("ffn_up") ? rows : 0;
    Values& to = all[place + (qwen     ? (down ? "mlp.experts.down_proj" : "mlp.experts.gate_up_proj")
                              : shared ? "shared_mlp.input_linear.weight"
                                       : "block_sparse_moe.input_linear.weight")];
    const auto wide = static_cast<int64_t>(parts * rows);
    to.sizes = qwen     ? std::vector<int64_t>{values.sizes[0], values.sizes[2], wide}
               : shared ? std::vector<int64_t>{wide, values.sizes[1]}
                        : std::vector<int64_t>{values.sizes[0], wide, values.sizes[2]};
    to.floats.resize(values.floats.size() * parts);
    for (size_t e = 0; e < experts; ++e)
      for (size_t row = 0; row < rows; ++row)
        for (size_t column = 0; column < columns; ++column)
          to.floats[qwen ? (e * columns + column) * parts * rows + first + row
                         : (e * parts * rows + first + row) * columns + column] =
              values.floats[(e * rows + row) * columns + column];
    return true;
  }

  void add_rope(Json& json) const {
    if (has("rope.scaling.type"))
      json["rope_scaling"] = {{"rope_type", from_.metadata().string(arch_ + ".rope.scaling.type")},
                              {"factor", number("rope.scaling.factor")}};
    if (has("rope.scaling.original_context_length") && has("rope.scaling.type"))
      json["rope_scaling"]["original_max_position_embeddings"] = key("rope.scaling.original_context_length");
    if (!from_.has("rope_factors_long.weight")) return;
    json["original_max_position_embeddings"] = key("rope.scaling.original_context_length");
    json["rope_scaling"] = {{"type", "longrope"},
                            {"long_factor", values_of(from_.tensor("rope_factors_long.weight")).floats},
                            {"short_factor", values_of(from_.tensor("rope_factors_short.weight")).floats}};
  }

  void add(const std::string& name, Values values, Weights& all) const {
    const bool gpt2 = arch_ == "gpt2", gemma = old_gemma(), nemotron = arch_.starts_with("nemotron");
    if (name.starts_with("rope_")) return;  // in config.json
    if (name.ends_with(".ssm_a") || name.ends_with(".ssm_d"))
      return add_to_block(name, "", std::move(values), all);
    const size_t dot = name.rfind('.');
    const std::string stem = name.substr(0, dot), ending = name.substr(dot);  // ".weight" or ".bias"
    if (stem == "output") return (void)(all["lm_head.weight"] = std::move(values));
    if (stem == "token_embd") {
      all[options_.prefix +
          (gpt2       ? "wte"
           : nemotron ? "embeddings"
                      : "embed_tokens") +
          ending] = std::move(values);
    } else if (stem.starts_with("per_layer_")) {
      const std::map<std::string, std::string> names = {
          {"per_layer_token_embd", "embed_tokens_per_layer"},
          {"per_layer_model_proj", "per_layer_model_projection"},
          {"per_layer_proj_norm", "per_layer_projection_norm"}};
      all[options_.prefix + names.at(stem) + ending] = std::move(values);
    } else if (stem == "token_embd_norm") {
      all[options_.prefix + "embedding_norm" + ending] = std::move(values);
    } else if (stem == "position_embd") {
      all[options_.prefix + "wpe" + ending] = std::move(values);
    } else if (stem == "output_norm") {
      all[options_.prefix +
          (gpt2       ? "ln_f"
           : nemotron ? "norm_f"
                      : "norm") +
          ending] = gemma || delta() ? less_one(std::move(values)) : values;
    } else {
      add_to_block(stem, ending, std::move(values), all);
    }
  }

  void add_to_block(const std::string& stem, const std::string& ending, Values values, Weights& all) const {
    const size_t dot = stem.find('.', 4);  // behind "blk.N"
    const std::string number = stem.substr(4, dot - 4), part = stem.substr(dot + 1);
    if (delta() && add_delta_part(number, part, values, all)) return;
    if (arch_ == "gpt-oss" && add_gpt_oss_experts(number, part, ending, values, all)) return;
    if (add_halves(number, part, values, all) || add_latent_part(number, part, all)) return;
    const std::string name = options_.prefix + (arch_ == "gpt2" ? "h." : "layers.") + number + "." +
                             name_in_block(options_.class_name, part) + ending;
    if (const size_t at = name.find('@'); at != std::string::npos) {
      for (size_t e = 0; e < static_cast<size_t>(values.sizes[0]); ++e)
        all[name.substr(0, at) + std::to_string(e) + name.substr(at + 1)] = expert_of(values, e);
      return;
    }
    const bool pairs =
        arch_ == "llama" || arch_ == "mistral3" || arch_ == "smollm3" || arch_.starts_with("granite");
    if (part == "shortconv.conv") values.sizes = {values.sizes[0], 1, values.sizes[1]};
    if (pairs && part == "attn_q") values = halves_of_heads(values, key("attention.head_count"));
    if (pairs && part == "attn_k") values = halves_of_heads(values, kv_heads());
    if (mamba() && part == "ssm_conv1d" && ending == ".weight")
      values.sizes = {values.sizes[0], 1, values.sizes[1]};
    if (part == "ssm_a")
      for (float& value : values.floats) value = std::log(-value);
    if (part == "ssm_a" || part == "ssm_d" || (mamba() && part == "ssm_norm"))
      values.sizes = {static_cast<int64_t>(values.floats.size())};
    if (arch_ == "gpt2" && values.sizes.size() == 2) values = transposed(values);
    if (old_gemma() && part.ends_with("norm")) values = less_one(std::move(values));
    const bool bare = part == "attn_sinks" || part == "exp_probs_b" || part == "layer_output_scale" ||
                      (mamba() && part == "ssm_dt");
    all[bare ? name.substr(0, name.rfind('.')) : name] = std::move(values);
  }

  const ModelFile& from_;
  const HfWriteOptions& options_;
  std::string arch_;
};

void write_safetensors(const std::filesystem::path& path,
                       const std::vector<const Weights::value_type*>& weights) {
  Json header = {{"__metadata__", {{"format", "pt"}}}};
  size_t end = 0;
  for (const auto* entry : weights) {
    const size_t bytes = entry->second.floats.size() * sizeof(float);
    header[entry->first] = {
        {"dtype", "F32"}, {"shape", entry->second.sizes}, {"data_offsets", {end, end + bytes}}};
    end += bytes;
  }
  std::string text = json_text(header);
  text.append((8 - text.size() % 8) % 8, ' ');
  std::ofstream out(path, std::ios::binary);
  const uint64_t length = text.size();
  out.write(reinterpret_cast<const char*>(&length), sizeof length);
  out << text;
  for (const auto* entry : weights)
    out.write(reinterpret_cast<const char*>(entry->second.floats.data()),
              static_cast<std::streamsize>(entry->second.floats.size() * sizeof(float)));
  BF_CHECK(out.good()) << path;
}

void write_weights(const Weights& all, const std::filesystem::path& folder, size_t shards) {
  std::vector<std::vector<const Weights::value_type*>> parts(shards);
  size_t next = 0;
  for (const auto& entry : all) parts[next++ % shards].push_back(&entry);
  if (shards == 1) return write_safetensors(folder / "model.safetensors", parts[0]);
  Json index;
  for (size_t s = 0; s < shards; ++s) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", s + 1, shards);
    for (const auto* entry : parts[s]) index["weight_map"][entry->first] = name;
    write_safetensors(folder / name, parts[s]);
  }
  std::ofstream(folder / "model.safetensors.index.json") << index;
}

// Byte-level BPE without merges: 256 letters, then made-up words up to the vocabulary's size.
void write_tokenizer(size_t size, const std::filesystem::path& folder) {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256 && vocab.size() < size; ++byte) {
    const char c = static_cast<char>(byte);
    vocab[to_byte_letters({&c, 1})] = vocab.size();
  }
  while (vocab.size() < size) vocab["w" + std::to_string(vocab.size())] = vocab.size();
  const Json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  const Json json = {{"version", "1.0"},
                     {"added_tokens", Json::array()},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", byte_level},
                     {"post_processor", nullptr},
                     {"decoder", byte_level},
                     {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}}}};
  std::ofstream(folder / "tokenizer.json") << json;
}

}  // namespace

void write_hf_folder(const ModelFile& from, const std::filesystem::path& folder,
                     const HfWriteOptions& options) {
  std::filesystem::create_directories(folder);
  const Writer writer(from, options);
  std::ofstream(folder / "config.json") << json_text(writer.config(), 2);
  write_weights(writer.weights(), folder, options.shards);
  write_tokenizer(from.metadata().u32(from.architecture() + ".vocab_size"), folder);
}

}  // namespace butterfly::model::testing
