// What the architectures share: token rows in, a chain of blocks, logits out; and reading a block's layers by
// name.
#pragma once
#include <string>
#include <vector>

#include "model/arch/network.h"
#include "nn/transformer_block.h"

namespace butterfly::model {

// The network of a range of blocks. An architecture's file fills it.
struct Decoder : Network {
  // Reads embedding, final norm and head as far as the range has them. Without a matrix of its own the head
  // shares the embedding's. `norm_kind` and name are those of the final norm.
  Decoder(const ModelConfig& config, WeightLoader& weights, LayerRange range,
          nn::NormKind norm_kind = nn::NormKind::kRms, const char* norm_name = "output_norm");

  StageValues build(graph::Graph& graph, size_t rows, size_t output_rows, size_t normed_rows,
                    size_t adapter_rank) const override;
  StageValues build_part(graph::Graph& graph, size_t rows, const LayerRange& part,
                         size_t adapter_rank) const override;
  TrainingValues build_training(graph::Graph& graph, const TrainingShape& shape) const override;
  // Errors name the file.
  void add_rope(const kernels::RopeParams& params, const ModelFile& file);
  // A second rope, for the blocks that see a window; the others keep the first.
  void add_window_rope(const kernels::RopeParams& params, const ModelFile& file);
  bool first() const { return range.has_embedding(); }
  bool last() const { return range.has_head(config.layers); }

  ModelConfig config;
  LayerRange range;
  graph::Parameter embedding;
  std::vector<nn::LowRank> embedding_adapters;
  size_t embedding_site = nn::kNoSite;  // of those that rows name
  float embedding_scale = 1;
  // Inputs that each block has of its own (ModelConfig::layer_input_cols), where the embedding is: a row of a
  // table for each token, and a product of the embedding.
  graph::Parameter input_table;
  nn::Linear input_product;
  nn::Norm input_norm;
  graph::Parameter positions;        // [positions, dim]: learned, added to the embedding; may be empty
  std::vector<kernels::Rope> ropes;  // empty: no rotations
  std::vector<nn::TransformerBlock> blocks;
  static constexpr size_t kNoRope = static_cast<size_t>(-1);
  std::vector<size_t> rope_of_block;  // index into `ropes`, or kNoRope; empty: all use the first
  size_t query_rope = kNoRope;        // queries have a rope of their own in all blocks; kNoRope: the block's
  nn::Norm norm;
  nn::Linear head;
  float logit_scale = 1;
  float logit_cap = 0;  // 0: none
  // Where a group shares the layers: rows of the head by member, and who this one is. The first member gets
  // the logits.
  std::vector<MemberRange> head_owners;
  size_t self = 0;

  // Parts of a graph, which the predictor uses too. Logits of normed rows, at the first member of a group:
  graph::ValueId build_head(nn::Builder& b, graph::ValueId x, graph::ValueId candidates) const;
  // `embedded`, if not null: the rows as the table has them.
  graph::ValueId build_embedding(nn::Builder& b, graph::ValueId tokens, graph::ValueId row_positions,
                                 graph::ValueId* embedded = nullptr) const;
  // The rows that a range begins with: of the embedding, or another stage's.
  struct Rows {
    graph::ValueId x;       // [rows, dim]
    graph::ValueId inputs;  // [rows, layers * layer_input_cols]: of all blocks; not valid without any
  };
  // Blocks [begin, end), counted within the range.
  graph::ValueId build_blocks(nn::Builder& b, const Rows& rows, graph::ValueId row_positions, size_t begin,
                              size_t end) const;

 private:
  Rows build_rows(nn::Builder& b, size_t rows, bool embeds, StageValues& values) const;
  // As they go to the next stage.
  graph::ValueId joined(nn::Builder& b, const Rows& rows) const;
  graph::ValueId build_layer_inputs(nn::Builder& b, graph::ValueId tokens, graph::ValueId x) const;
};

// Queries and keys before they are rotated.
enum class AttentionNorms {
  kNone,
  kHeads,        // attn_q_norm and attn_k_norm, one weight per value of a head
  kHeadsOrNone,  // where the file has them
  kRows,         // one weight per column: all heads of a row together
};

// How attention differs from Llama's.
struct AttentionStyle {
  kernels::RopeLayout layout = kernels::RopeLayout::kInterleaved;
  AttentionNorms norms = AttentionNorms::kNone;
  bool norm_values = false;  // values too, without weights
  bool gated = false;        // attn_q has each head's gates behind its queries
  bool sinks = false;        // attn_sinks, one per head
  float scale = 0;           // of scores; 0: 1 / sqrt(head_dim)
};

// Columns of a head in attention over latents.
struct LatentShape {
  size_t latent = 0;            // of what the cache has, for all heads
  size_t rotated = 0;           // behind it
  size_t plain = 0, value = 0;  // of a query that is not rotated, and of a value
  size_t query_rank = 0;        // queries come through so many columns; 0: directly
  float scale = 1;              // of scores
};

// Layers of block `layer` of the file, under llama.cpp's names without "blk.N.". Lives while a model loads.
class BlockLoader {
 public:
  BlockLoader(const Decoder& decoder, WeightLoader& weights, size_t layer);

  bool has(const char* tensor) const { return weights_.has(prefix_ + tensor); }
  nn::Norm norm(const char* name, nn::NormKind kind = nn::NormKind::kRms) const;
  nn::Linear linear(const char* name, size_t out, size_t in) const;
  // One that is summed by logical shards: the output of attention of either kind, and every down.
  nn::Linear row_parallel(const char* name, size_t out, size_t in) const;
  // The same where a group may share it by units of `kind`: with owners, and this member's columns.
  nn::Linear row_parallel(const char* name, size_t out, size_t in, UnitRange LayerShare::*kind) const;
  // The same with these owners; none: all of it.
  nn::Linear row_parallel(const char* name, size_t out, size_t in, const nn::ShardOwners& owners) const;

  // Projections (fused as attn_qkv or apart; biases where the file has them), over the window that the
  // layer's state has.
  nn::Attention attention(const AttentionStyle& style) const;
  // attn_qkv, attn_gate and the ssm_ tensors: linear attention of this shape.
  nn::DeltaNet delta_net(const graph::GatedDeltaShape& shape, size_t taps) const;
  // shortconv.in_proj, conv and out_proj.
  nn::ShortConv short_conv(size_t taps) const;
  // ssm_in and the other ssm_ tensors: Mamba-2 of this shape.
  nn::SelectiveMixer selective_mixer(const graph::SelectiveStateShape& shape, size_t taps) const;
  // attn_q or attn_q_a and attn_q_b, attn_kv_a_mqa, attn_k_b, attn_v_b: attention over latents.
  nn::LatentAttention latent_attention(const LatentShape& shape) const;
  // inp_gate, proj and post_norm: what the block makes of its own input.
  nn::LayerInput layer_input() const;
  // layer_output_scale, 1 without it.
  float output_scale() const;
  // ffn_gate, ffn_up, ffn_down.
  nn::Mlp gated_mlp(nn::Activation activation) const;
  // ffn_up with the gate's rows in front of its own, ffn_down.
  nn::Mlp fused_gated_mlp(nn::Activation activation) const;
  // ffn_up and ffn_down, with gelu or another activation without a gate.
  nn::Mlp plain_mlp(nn::Activation activation = nn::Activation::kGelu) const;
  // ffn_gate_inp and ffn_{gate,up,down}_exps, or ffn_gate_up_exps; counts and the router's options from the
  // "expert_" keys. `ff`: columns inside an expert.
  nn::Moe moe(size_t ff, nn::Activation activation = nn::Activation::kSilu) const;
  // The expert that sees every row, times the sigmoid of ffn_gate_inp_shexp where the file has that.
  void add_shared_expert(nn::Moe& moe, size_t ff) const;
  // The dense part's neighbours in gemma4: pre_ffw_norm_2, experts and what belongs to them.
  nn::MoeBeside moe_beside(size_t ff) const;

 private:
  void add_norms(nn::Attention& attention, AttentionNorms norms) const;
  // Rows of gate and up that belong to this member's columns of `down`, of `ff` in all.
  static MemberRange hidden_rows(const nn::Linear& down, size_t ff);
  nn::Linear rows(const char* name, size_t out, size_t in, MemberRange here) const;
  // Of so many values those of `here`.
  graph::Parameter vector(const char* name, size_t count, MemberRange here) const;

  nn::Norm rms(const char* name, size_t columns) const;

  const ModelConfig& config_;
  WeightLoader& weights_;
  const LayerState& state_;
  size_t kv_heads_, head_dim_;  // of the whole layer
  size_t ff_;
  size_t layer_;        // of the model
  size_t index_;        // within the range
  std::string prefix_;  // "blk.N."
};

}  // namespace butterfly::model
