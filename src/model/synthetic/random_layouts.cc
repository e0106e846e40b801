#include "model/synthetic/random_layouts.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace butterfly::model {
namespace {

uint32_t head_length(const RandomModelOptions& o) {
  return o.head_length != 0 ? o.head_length : o.embedding_length / std::max(o.head_count, 1u);
}

void check(const RandomModelOptions& o) {
  const auto positive = [](const char* name, uint32_t value) {
    if (value == 0) fail(Errc::kInvalidArgument, "{} is 0, expected at least 1", name);
  };
  positive("context length", o.context_length);
  positive("embedding length", o.embedding_length);
  positive("feed-forward length", o.feed_forward_length);
  positive("head count", o.head_count);
  positive("kv head count", o.head_count_kv);
  if (o.head_length == 0 && o.embedding_length % o.head_count != 0) {
    fail(Errc::kInvalidArgument, "embedding length {} is not a multiple of {} heads", o.embedding_length,
         o.head_count);
  }
  if (o.head_count % o.head_count_kv != 0) {
    fail(Errc::kInvalidArgument, "{} heads is not a multiple of {} kv heads", o.head_count, o.head_count_kv);
  }
  if (head_length(o) % 2 != 0) {
    fail(Errc::kInvalidArgument, "head size {} is odd, and rope rotates pairs", head_length(o));
  }
}

float inverse_root(int64_t count) {
  return 1.0f / std::sqrt(static_cast<float>(std::max<int64_t>(count, 1)));
}

}  // namespace

RandomSizes::RandomSizes(const RandomModelOptions& o)
    : dim(o.embedding_length),
      head_dim(head_length(o)),
      q_dim(head_dim * o.head_count),
      kv_dim(head_dim * o.head_count_kv),
      hidden(o.feed_forward_length),
      vocabulary(o.vocabulary_size),
      from_dim(inverse_root(dim)),
      from_q(inverse_root(q_dim)),
      from_hidden(inverse_root(hidden)),
      residual(inverse_root(2 * int64_t{o.block_count})) {}

void LayoutBuilder::output() {
  norm("output_norm.weight", size.dim);
  if (!options.tied)
    plan.push_back({"output.weight", Shape{size.vocabulary, size.dim}, options.vocabulary_type, 0.0f,
                    2 * size.from_dim});
}

void LayoutBuilder::attention(const std::string& block) {
  norm(block + "attn_norm.weight", size.dim);
  matrix(block + "attn_q.weight", size.q_dim, size.dim, size.from_dim);
  matrix(block + "attn_k.weight", size.kv_dim, size.dim, size.from_dim);
  matrix(block + "attn_v.weight", size.kv_dim, size.dim, size.from_dim);
  matrix(block + "attn_output.weight", size.dim, size.q_dim, size.residual * size.from_q);
}

void LayoutBuilder::gated_mlp(const std::string& block, const char* norm_name) {
  norm(block + norm_name + ".weight", size.dim);
  matrix(block + "ffn_gate.weight", size.hidden, size.dim, size.from_dim);
  matrix(block + "ffn_up.weight", size.hidden, size.dim, size.from_dim);
  matrix(block + "ffn_down.weight", size.dim, size.hidden, size.residual * size.from_hidden);
}

void LayoutBuilder::moe(const std::string& block, const char* norm_name) {
  norm(block + norm_name + ".weight", size.dim);
  plan.push_back({block + "ffn_gate_inp.weight", Shape{options.expert_count, size.dim}, DType::kF32, 0.0f,
                  2 * size.from_dim});
  experts(block + "ffn_gate_exps.weight", size.hidden, size.dim, size.from_dim);
  experts(block + "ffn_up_exps.weight", size.hidden, size.dim, size.from_dim);
  experts(block + "ffn_down_exps.weight", size.dim, size.hidden, size.residual * size.from_hidden);
}

void LayoutBuilder::shared_expert(const std::string& block) {
  matrix(block + "ffn_gate_shexp.weight", size.hidden, size.dim, size.from_dim);
  matrix(block + "ffn_up_shexp.weight", size.hidden, size.dim, size.from_dim);
  matrix(block + "ffn_down_shexp.weight", size.dim, size.hidden, size.residual * size.from_hidden);
}

void LayoutBuilder::predictor(const std::string& block) {
  norm(block + "nextn.enorm.weight", size.dim);
  norm(block + "nextn.hnorm.weight", size.dim);
  matrix(block + "nextn.eh_proj.weight", size.dim, 2 * size.dim, size.from_dim);
  norm(block + "nextn.shared_head_norm.weight", size.dim);
}

void LayoutBuilder::head_norms(const std::string& block) {
  norm(block + "attn_q_norm.weight", size.head_dim);
  norm(block + "attn_k_norm.weight", size.head_dim);
}

void LayoutBuilder::row_norms(const std::string& block) {
  norm(block + "attn_q_norm.weight", size.q_dim);
  norm(block + "attn_k_norm.weight", size.kv_dim);
}

void add_shared_metadata(const RandomModelOptions& o, const std::string& arch, Metadata& metadata) {
  check(o);
  metadata.set(arch + ".vocab_size", o.vocabulary_size);
  metadata.set(arch + ".context_length", o.context_length);
  metadata.set(arch + ".embedding_length", o.embedding_length);
  metadata.set(arch + ".block_count", o.block_count + o.predicting_blocks);
  if (o.predicting_blocks > 0) metadata.set(arch + ".nextn_predict_layers", o.predicting_blocks);
  metadata.set(arch + ".feed_forward_length", o.feed_forward_length);
  metadata.set(arch + ".attention.head_count", o.head_count);
  metadata.set(arch + ".attention.head_count_kv", o.head_count_kv);
}

void add_rms_metadata(const RandomModelOptions& o, const std::string& arch, Metadata& metadata) {
  add_shared_metadata(o, arch, metadata);
  metadata.set(arch + ".attention.layer_norm_rms_epsilon", 1e-5f);
  metadata.set(arch + ".rope.dimension_count", head_length(o));
  metadata.set(arch + ".rope.freq_base", o.rope_freq_base);
  if (o.head_length != 0) {
    metadata.set(arch + ".attention.key_length", o.head_length);
    metadata.set(arch + ".attention.value_length", o.head_length);
  }
}

void add_expert_metadata(const RandomModelOptions& o, const std::string& arch, Metadata& metadata) {
  if (o.expert_used_count == 0 || o.expert_used_count > o.expert_count)
    fail(Errc::kInvalidArgument, "{} experts are used per token, expected 1 to {}", o.expert_used_count,
         o.expert_count);
  metadata.set(arch + ".expert_count", o.expert_count);
  metadata.set(arch + ".expert_used_count", o.expert_used_count);
}

}  // namespace butterfly::model
