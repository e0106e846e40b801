// The layout of the llama architecture for random models.
#include <cmath>

#include "base/error.h"
#include "model/synthetic/random_layouts.h"

namespace butterfly::model {
namespace {

void check(const RandomModelOptions& o) {
  const auto positive = [](const char* name, uint32_t value) {
    if (value == 0) fail(Errc::kInvalidArgument, "{} is 0, expected at least 1", name);
  };
  positive("context length", o.context_length);
  positive("embedding length", o.embedding_length);
  positive("feed-forward length", o.feed_forward_length);
  positive("head count", o.head_count);
  positive("kv head count", o.head_count_kv);
  if (o.embedding_length % o.head_count != 0) {
    fail(Errc::kInvalidArgument, "embedding length {} is not a multiple of {} heads", o.embedding_length,
         o.head_count);
  }
  if (o.head_count % o.head_count_kv != 0) {
    fail(Errc::kInvalidArgument, "{} heads is not a multiple of {} kv heads", o.head_count, o.head_count_kv);
  }
  if (o.embedding_length / o.head_count % 2 != 0) {
    fail(Errc::kInvalidArgument, "head size {} is odd, and rope turns pairs",
         o.embedding_length / o.head_count);
  }
}

}  // namespace

void add_llama_metadata(const RandomModelOptions& o, Metadata& metadata) {
  check(o);
  metadata.set("llama.vocab_size", o.vocabulary_size);
  metadata.set("llama.context_length", o.context_length);
  metadata.set("llama.embedding_length", o.embedding_length);
  metadata.set("llama.block_count", o.block_count);
  metadata.set("llama.feed_forward_length", o.feed_forward_length);
  metadata.set("llama.attention.head_count", o.head_count);
  metadata.set("llama.attention.head_count_kv", o.head_count_kv);
  metadata.set("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  metadata.set("llama.rope.dimension_count", o.embedding_length / o.head_count);
  metadata.set("llama.rope.freq_base", o.rope_freq_base);
}

// Deviations of 1/sqrt(inputs) keep activations near 1 through all layers; rows that return to the residual
// stream are smaller, so that depth does not blow it up.
std::vector<TensorPlan> plan_llama(const RandomModelOptions& o) {
  const int64_t dim = o.embedding_length;
  const int64_t hidden = o.feed_forward_length;
  const int64_t vocabulary = o.vocabulary_size;
  const int64_t kv_dim = dim / o.head_count * o.head_count_kv;
  const float from_dim = 1.0f / std::sqrt(static_cast<float>(dim));
  const float residual = 1.0f / std::sqrt(2.0f * static_cast<float>(o.block_count ? o.block_count : 1));
  const float from_hidden = residual / std::sqrt(static_cast<float>(hidden));

  std::vector<TensorPlan> plan;
  const auto norm = [&](std::string name) {
    plan.push_back({std::move(name), Shape{dim}, DType::kF32, 1.0f, 0.02f});
  };
  const auto matrix = [&](std::string name, int64_t rows, int64_t columns, float deviation) {
    plan.push_back({std::move(name), Shape{rows, columns}, o.matrix_type, 0.0f, deviation});
  };
  plan.push_back(
      {"token_embd.weight", Shape{vocabulary, dim}, o.vocabulary_type, 0.0f, o.tied ? 2 * from_dim : 1.0f});
  for (uint32_t layer = 0; layer < o.block_count; ++layer) {
    const std::string block = fmt::format("blk.{}.", layer);
    norm(block + "attn_norm.weight");
    matrix(block + "attn_q.weight", dim, dim, from_dim);
    matrix(block + "attn_k.weight", kv_dim, dim, from_dim);
    matrix(block + "attn_v.weight", kv_dim, dim, from_dim);
    matrix(block + "attn_output.weight", dim, dim, residual * from_dim);
    norm(block + "ffn_norm.weight");
    matrix(block + "ffn_gate.weight", hidden, dim, from_dim);
    matrix(block + "ffn_up.weight", hidden, dim, from_dim);
    matrix(block + "ffn_down.weight", dim, hidden, from_hidden);
  }
  norm("output_norm.weight");
  if (!o.tied)
    plan.push_back({"output.weight", Shape{vocabulary, dim}, o.vocabulary_type, 0.0f, 2 * from_dim});
  return plan;
}

}  // namespace butterfly::model
