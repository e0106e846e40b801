// Llama-type networks: rotary positions in interleaved pairs, RMS norm, SwiGLU.
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "base/error.h"
#include "model/arch/network.h"
#include "nn/transformer_block.h"

namespace butterfly::model {
namespace {

class Llama : public Network {
 public:
  Llama(const ModelConfig& config, WeightLoader& weights, LayerRange range)
      : config_(config), range_(range), rope_(config.rope) {
    if (first()) embedding_ = weights.table("token_embd.weight", config.vocab, config.dim);
    blocks_.reserve(range.end - range.begin);
    for (size_t layer = range.begin; layer < range.end; ++layer)
      blocks_.push_back(load_block(weights, layer));
    if (last()) {
      norm_ = {weights.vector("output_norm.weight", config.dim), config.norm_eps};
      // Without a matrix of its own the head shares the embedding's.
      const bool tied = !weights.has("output.weight");
      head_.weight = weights.matrix(tied ? "token_embd.weight" : "output.weight", config.vocab, config.dim);
    }
  }

  StageValues build(graph::Graph& g, size_t rows, size_t output_rows) const override {
    using graph::Elem;
    const auto n = static_cast<int64_t>(rows);
    nn::Builder b(g);
    StageValues values;
    graph::ValueId x;
    if (first()) {
      values.tokens = g.input("tokens", {Elem::kI32, {n}});
      x = graph::embedding(g, values.tokens, embedding_, "embedding");
    } else {
      values.hidden = x = g.input("hidden", {Elem::kF32, {n, static_cast<int64_t>(config_.dim)}});
    }
    values.positions = g.input("positions", {Elem::kI32, {n}});
    if (last()) values.selected = g.input("selected", {Elem::kI32, {static_cast<int64_t>(output_rows)}});
    const graph::ValueId turns = graph::rope_turns(g, values.positions, rope_, "rope_turns");
    for (const nn::TransformerBlock& block : blocks_) x = block.build(b, x, turns);
    if (last())
      x = head_.build(b, norm_.build(b, graph::select_rows(g, x, values.selected, "selected_rows")));
    g.mark_output(x);
    values.output = x;
    return values;
  }

 private:
  bool first() const { return range_.begin == 0; }
  bool last() const { return range_.end == config_.layers; }

  nn::TransformerBlock load_block(WeightLoader& weights, size_t layer) const {
    const ModelConfig& c = config_;
    const std::string prefix = fmt::format("blk.{}.", layer);
    const auto norm = [&](const char* name) {
      return nn::RmsNorm{weights.vector(prefix + name + ".weight", c.dim), c.norm_eps};
    };
    const auto linear = [&](const char* name, size_t out, size_t in) {
      return nn::Linear{weights.matrix(prefix + name + ".weight", out, in),
                        weights.optional_vector(prefix + name + ".bias", out)};
    };
    const size_t q_cols = c.heads * c.head_dim, kv_cols = c.kv_heads * c.head_dim;
    nn::TransformerBlock block;
    block.attention_norm = norm("attn_norm");
    block.attention = {
        .q = linear("attn_q", q_cols, c.dim),
        .k = linear("attn_k", kv_cols, c.dim),
        .v = linear("attn_v", kv_cols, c.dim),
        .out = linear("attn_output", c.dim, q_cols),
        .shape = {.layer = layer - range_.begin,
                  .heads = c.heads,
                  .kv_heads = c.kv_heads,
                  .head_dim = c.head_dim,
                  .params = {.scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim)),
                             .soft_cap = 0,
                             .window = 0}},
        .rope_layout = kernels::RopeLayout::kInterleaved,
        .name = prefix + "attn",
    };
    block.mlp_norm = norm("ffn_norm");
    block.mlp = {.gate = linear("ffn_gate", c.ff, c.dim),
                 .up = linear("ffn_up", c.ff, c.dim),
                 .down = linear("ffn_down", c.dim, c.ff),
                 .name = prefix + "ffn"};
    return block;
  }

  ModelConfig config_;
  LayerRange range_;
  kernels::Rope rope_;
  graph::Parameter embedding_;
  std::vector<nn::TransformerBlock> blocks_;
  nn::RmsNorm norm_;
  nn::Linear head_;
};

}  // namespace

std::unique_ptr<Network> load_llama(const ModelConfig& config, WeightLoader& weights, LayerRange range) {
  const uint64_t experts = weights.file().metadata().u64_or("llama.expert_count", 0);
  if (experts > 0)
    fail(Errc::kUnsupported, "{}: mixtures of experts are not supported (llama.expert_count is {})",
         weights.file().path().string(), experts);
  return std::make_unique<Llama>(config, weights, range);
}

}  // namespace butterfly::model
