// The layouts behind random_architectures(), one file per architecture, and what they share.
#pragma once
#include <string>
#include <vector>

#include "model/synthetic/random_model.h"

namespace butterfly::model {

// Sizes that follow from the options.
struct RandomSizes {
  explicit RandomSizes(const RandomModelOptions& o);
  int64_t dim, head_dim, q_dim, kv_dim, hidden, vocabulary;
  // Deviations of 1/sqrt(inputs) keep activations near 1 through all layers; rows that return to the residual
  // stream are smaller, so that depth does not blow it up.
  float from_dim, from_q, from_hidden, residual;
};

// Collects the tensors of a model. One thread.
class LayoutBuilder {
 public:
  explicit LayoutBuilder(const RandomModelOptions& wanted) : options(wanted), size(wanted) {}

  void norm(std::string name, int64_t count, float mean = 1.0f) {
    plan.push_back({std::move(name), Shape{count}, DType::kF32, mean, 0.02f});
  }
  void bias(std::string name, int64_t count, float deviation = 0.1f) {
    plan.push_back({std::move(name), Shape{count}, DType::kF32, 0.0f, deviation});
  }
  void matrix(std::string name, int64_t rows, int64_t columns, float deviation) {
    plan.push_back({std::move(name), Shape{rows, columns}, options.matrix_type, 0.0f, deviation});
  }
  void experts(std::string name, int64_t rows, int64_t columns, float deviation) {
    plan.push_back({std::move(name), Shape{options.expert_count, rows, columns},
                    options.expert_type.value_or(options.matrix_type), 0.0f, deviation});
  }
  // As Llama's are: larger where it is also the head.
  void embedding_as_head() { embedding(options.tied ? 2 * size.from_dim : 1.0f); }
  void embedding(float deviation) {
    plan.push_back(
        {"token_embd.weight", Shape{size.vocabulary, size.dim}, options.vocabulary_type, 0.0f, deviation});
  }
  // output_norm, and output unless the model is tied.
  void output();
  // attn_norm, attn_q, attn_k, attn_v, attn_output.
  void attention(const std::string& block);
  // The norm in front, ffn_gate, ffn_up, ffn_down.
  void gated_mlp(const std::string& block, const char* norm_name = "ffn_norm");
  // The norm in front, ffn_gate_inp, ffn_{gate,up,down}_exps.
  void moe(const std::string& block, const char* norm_name = "ffn_norm");

  // ffn_{gate,up,down}_shexp, an expert that sees every row.
  void shared_expert(const std::string& block);
  // attn_q_norm and attn_k_norm, by the value of a head or by the column of a row.
  void head_norms(const std::string& block);
  void row_norms(const std::string& block);

  // nextn.enorm, hnorm, eh_proj and shared_head_norm.
  void predictor(const std::string& block);

  const RandomModelOptions& options;
  const RandomSizes size;
  std::vector<TensorPlan> plan;
};

// The keys that all have, under "<arch>.", after checking that the sizes fit together.
void add_shared_metadata(const RandomModelOptions& options, const std::string& arch, Metadata& metadata);
void add_rms_metadata(const RandomModelOptions& options, const std::string& arch, Metadata& metadata);
void add_expert_metadata(const RandomModelOptions& options, const std::string& arch, Metadata& metadata);

// Granite's scales, small ones that show.
void add_granite_scales(const std::string& arch, Metadata& metadata);

// "blk.N." for every block, in order: fn(prefix).
template <typename F>
void for_each_block(const RandomModelOptions& options, F&& fn) {
  for (uint32_t layer = 0; layer < options.block_count; ++layer) fn("blk." + std::to_string(layer) + ".");
}
// The same for those behind them that predict further ahead.
template <typename F>
void for_each_predictor(const RandomModelOptions& options, F&& fn) {
  const uint32_t end = options.block_count + options.predicting_blocks;
  for (uint32_t layer = options.block_count; layer < end; ++layer) fn("blk." + std::to_string(layer) + ".");
}

// The rows' functions.
AddMetadata add_deepseek2_metadata, add_gemma4_metadata, add_gemma4moe_metadata, add_granitehybrid_metadata,
    add_nemotron_h_metadata, add_nemotron_h_moe_metadata;
PlanTensors plan_deepseek2, plan_gemma4, plan_gemma4moe, plan_granitehybrid, plan_nemotron_h,
    plan_nemotron_h_moe;
AddMetadata add_gemma2_metadata, add_gemma3_metadata, add_glm4moe_metadata, add_gpt2_metadata,
    add_gpt_oss_metadata, add_granite_metadata, add_granitemoe_metadata, add_lfm2_metadata,
    add_lfm2moe_metadata, add_llama_metadata, add_llama3_metadata, add_minimax_m2_metadata,
    add_mistral3_metadata, add_mixtral_metadata, add_olmo2_metadata, add_phi3_metadata, add_qwen2_metadata,
    add_qwen3_metadata, add_qwen3moe_metadata, add_qwen3vl_metadata, add_qwen3vlmoe_metadata,
    add_qwen35_metadata, add_qwen35moe_metadata, add_qwen3next_metadata, add_smollm3_metadata;
PlanTensors plan_gemma2, plan_gemma3, plan_glm4moe, plan_gpt2, plan_gpt_oss, plan_granite, plan_granitemoe,
    plan_lfm2, plan_lfm2moe, plan_llama, plan_llama3, plan_minimax_m2, plan_mixtral, plan_olmo2, plan_phi3,
    plan_qwen2, plan_qwen3, plan_qwen3moe, plan_qwen35, plan_qwen35moe, plan_qwen3next;

}  // namespace butterfly::model
