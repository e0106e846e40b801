#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/printable.h"
#include "model/formats/hf_architecture.h"
#include "model/metadata/architecture_names.h"

namespace butterfly::model {
namespace {

using enum HfValues;

constexpr HfRule kEnds[] = {
    {"embed_tokens.weight", "token_embd.weight"},
    {"lm_head.weight", "output.weight"},
    {"layers.#.self_attn.rotary_emb.inv_freq", "", kIgnore},
    {"rotary_emb.inv_freq", "", kIgnore},
};

constexpr HfRule kPreNorms[] = {
    {"norm.weight", "output_norm.weight"},
    {"layers.#.input_layernorm.weight", "blk.#.attn_norm.weight"},
    {"layers.#.post_attention_layernorm.weight", "blk.#.ffn_norm.weight"},
    {"layers.#.mlp.gate_proj.weight", "blk.#.ffn_gate.weight"},
    {"layers.#.mlp.gate_proj.bias", "blk.#.ffn_gate.bias"},
    {"layers.#.mlp.up_proj.weight", "blk.#.ffn_up.weight"},
    {"layers.#.mlp.up_proj.bias", "blk.#.ffn_up.bias"},
    {"layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight"},
    {"layers.#.mlp.down_proj.bias", "blk.#.ffn_down.bias"},
};

constexpr HfRule kLlamaAttention[] = {
    {"layers.#.self_attn.q_proj.weight", "blk.#.attn_q.weight", kRopePairsQ},
    {"layers.#.self_attn.q_proj.bias", "blk.#.attn_q.bias", kRopePairsQ},
    {"layers.#.self_attn.k_proj.weight", "blk.#.attn_k.weight", kRopePairsKv},
    {"layers.#.self_attn.k_proj.bias", "blk.#.attn_k.bias", kRopePairsKv},
    {"layers.#.self_attn.v_proj.weight", "blk.#.attn_v.weight"},
    {"layers.#.self_attn.v_proj.bias", "blk.#.attn_v.bias"},
    {"layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight"},
    {"layers.#.self_attn.o_proj.bias", "blk.#.attn_output.bias"},
};

constexpr HfRule kHalfSplitAttention[] = {
    {"layers.#.self_attn.q_proj.weight", "blk.#.attn_q.weight"},
    {"layers.#.self_attn.q_proj.bias", "blk.#.attn_q.bias"},
    {"layers.#.self_attn.k_proj.weight", "blk.#.attn_k.weight"},
    {"layers.#.self_attn.k_proj.bias", "blk.#.attn_k.bias"},
    {"layers.#.self_attn.v_proj.weight", "blk.#.attn_v.weight"},
    {"layers.#.self_attn.v_proj.bias", "blk.#.attn_v.bias"},
    {"layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight"},
    {"layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight"},
    {"layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight"},
};

constexpr HfRule kMixtralExperts[] = {
    {"layers.#.block_sparse_moe.gate.weight", "blk.#.ffn_gate_inp.weight"},
    {"layers.#.block_sparse_moe.experts.@.w1.weight", "blk.#.ffn_gate_exps.weight", kExpert},
    {"layers.#.block_sparse_moe.experts.@.w3.weight", "blk.#.ffn_up_exps.weight", kExpert},
    {"layers.#.block_sparse_moe.experts.@.w2.weight", "blk.#.ffn_down_exps.weight", kExpert},
};

constexpr HfRule kQwenExperts[] = {
    {"layers.#.mlp.gate.weight", "blk.#.ffn_gate_inp.weight"},
    {"layers.#.mlp.experts.@.gate_proj.weight", "blk.#.ffn_gate_exps.weight", kExpert},
    {"layers.#.mlp.experts.@.up_proj.weight", "blk.#.ffn_up_exps.weight", kExpert},
    {"layers.#.mlp.experts.@.down_proj.weight", "blk.#.ffn_down_exps.weight", kExpert},
};

// Norms are kept as w - 1, but for the one of linear attention.
constexpr HfRule kDeltaNet[] = {
    {"norm.weight", "output_norm.weight", kAddOne},
    {"layers.#.input_layernorm.weight", "blk.#.attn_norm.weight", kAddOne},
    {"layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight", kAddOne},
    {"layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight", kAddOne},
    {"layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight", kAddOne},
    {"layers.#.linear_attn.in_proj_qkv.weight", "blk.#.attn_qkv.weight", kDeltaQkv},
    {"layers.#.linear_attn.in_proj_z.weight", "blk.#.attn_gate.weight", kDeltaRows},
    {"layers.#.linear_attn.in_proj_qkvz.weight", "blk.#.attn_qkv.weight", kDeltaQkvOfAll},
    {"layers.#.linear_attn.in_proj_qkvz.weight", "blk.#.attn_gate.weight", kDeltaGateOfAll},
    {"layers.#.linear_attn.conv1d.weight", "blk.#.ssm_conv1d.weight", kDeltaConv},
    {"layers.#.linear_attn.dt_bias", "blk.#.ssm_dt.bias", kDeltaRows},
    {"layers.#.linear_attn.A_log", "blk.#.ssm_a", kDeltaA},
    {"layers.#.linear_attn.in_proj_b.weight", "blk.#.ssm_beta.weight", kDeltaRows},
    {"layers.#.linear_attn.in_proj_a.weight", "blk.#.ssm_alpha.weight", kDeltaRows},
    {"layers.#.linear_attn.in_proj_ba.weight", "blk.#.ssm_ba.weight"},
    {"layers.#.linear_attn.norm.weight", "blk.#.ssm_norm.weight"},
    {"layers.#.linear_attn.out_proj.weight", "blk.#.ssm_out.weight", kDeltaColumns},
};

constexpr HfRule kSharedExpert[] = {
    {"layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_gate_up_exps.weight"},
    {"layers.#.mlp.experts.down_proj", "blk.#.ffn_down_exps.weight"},
    {"layers.#.mlp.shared_expert_gate.weight", "blk.#.ffn_gate_inp_shexp.weight", kOneRow},
    {"layers.#.mlp.shared_expert.gate_proj.weight", "blk.#.ffn_gate_shexp.weight"},
    {"layers.#.mlp.shared_expert.up_proj.weight", "blk.#.ffn_up_shexp.weight"},
    {"layers.#.mlp.shared_expert.down_proj.weight", "blk.#.ffn_down_shexp.weight"},
};

constexpr HfRule kGptOss[] = {
    {"norm.weight", "output_norm.weight"},
    {"layers.#.input_layernorm.weight", "blk.#.attn_norm.weight"},
    {"layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight"},
    {"layers.#.self_attn.o_proj.bias", "blk.#.attn_output.bias"},
    {"layers.#.self_attn.sinks", "blk.#.attn_sinks.weight"},
    {"layers.#.mlp.router.weight", "blk.#.ffn_gate_inp.weight"},
    {"layers.#.mlp.router.bias", "blk.#.ffn_gate_inp.bias"},
    {"layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_gate_exps.weight", kExpertsGate},
    {"layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_up_exps.weight", kExpertsUp},
    {"layers.#.mlp.experts.gate_up_proj_blocks", "blk.#.ffn_gate_exps.weight", kMxfp4Gate},
    {"layers.#.mlp.experts.gate_up_proj_blocks", "blk.#.ffn_up_exps.weight", kMxfp4Up},
    {"layers.#.mlp.experts.gate_up_proj_scales", "", kIgnore},  // read with the blocks
    {"layers.#.mlp.experts.gate_up_proj_bias", "blk.#.ffn_gate_exps.bias", kExpertsGateBias},
    {"layers.#.mlp.experts.gate_up_proj_bias", "blk.#.ffn_up_exps.bias", kExpertsUpBias},
    {"layers.#.mlp.experts.down_proj", "blk.#.ffn_down_exps.weight", kExpertsDown},
    {"layers.#.mlp.experts.down_proj_blocks", "blk.#.ffn_down_exps.weight", kMxfp4Down},
    {"layers.#.mlp.experts.down_proj_scales", "", kIgnore},
    {"layers.#.mlp.experts.down_proj_bias", "blk.#.ffn_down_exps.bias"},
};

// The gates of an expert below one another, then its outputs.
constexpr HfRule kGraniteExperts[] = {
    {"layers.#.block_sparse_moe.router.layer.weight", "blk.#.ffn_gate_inp.weight"},
    {"layers.#.block_sparse_moe.input_linear.weight", "blk.#.ffn_gate_exps.weight", kFirstRows},
    {"layers.#.block_sparse_moe.input_linear.weight", "blk.#.ffn_up_exps.weight", kSecondRows},
    {"layers.#.block_sparse_moe.output_linear.weight", "blk.#.ffn_down_exps.weight"},
    {"layers.#.shared_mlp.input_linear.weight", "blk.#.ffn_gate_shexp.weight", kFirstRows},
    {"layers.#.shared_mlp.input_linear.weight", "blk.#.ffn_up_shexp.weight", kSecondRows},
    {"layers.#.shared_mlp.output_linear.weight", "blk.#.ffn_down_shexp.weight"},
};

constexpr HfRule kOlmo2[] = {
    {"layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight"},
    {"layers.#.post_feedforward_layernorm.weight", "blk.#.post_ffw_norm.weight"},
};

constexpr HfRule kGlm4Moe[] = {
    {"layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight"},
    {"layers.#.mlp.gate.e_score_correction_bias", "blk.#.exp_probs_b.bias"},
    {"layers.#.mlp.shared_experts.gate_proj.weight", "blk.#.ffn_gate_shexp.weight"},
    {"layers.#.mlp.shared_experts.up_proj.weight", "blk.#.ffn_up_shexp.weight"},
    {"layers.#.mlp.shared_experts.down_proj.weight", "blk.#.ffn_down_shexp.weight"},
};

constexpr HfRule kMiniMax[] = {
    {"layers.#.block_sparse_moe.e_score_correction_bias", "blk.#.exp_probs_b.bias"},
};

constexpr HfRule kLfm2[] = {
    {"embedding_norm.weight", "token_embd_norm.weight"},
    {"layers.#.operator_norm.weight", "blk.#.attn_norm.weight"},
    {"layers.#.ffn_norm.weight", "blk.#.ffn_norm.weight"},
    {"layers.#.self_attn.out_proj.weight", "blk.#.attn_output.weight"},
    {"layers.#.self_attn.q_layernorm.weight", "blk.#.attn_q_norm.weight"},
    {"layers.#.self_attn.k_layernorm.weight", "blk.#.attn_k_norm.weight"},
    {"layers.#.conv.in_proj.weight", "blk.#.shortconv.in_proj.weight"},
    {"layers.#.conv.conv.weight", "blk.#.shortconv.conv.weight", kNoMiddle},
    {"layers.#.conv.out_proj.weight", "blk.#.shortconv.out_proj.weight"},
    {"layers.#.feed_forward.w1.weight", "blk.#.ffn_gate.weight"},
    {"layers.#.feed_forward.w2.weight", "blk.#.ffn_down.weight"},
    {"layers.#.feed_forward.w3.weight", "blk.#.ffn_up.weight"},
    {"layers.#.feed_forward.gate.weight", "blk.#.ffn_gate_inp.weight"},
    {"layers.#.feed_forward.expert_bias", "blk.#.exp_probs_b.bias"},
    {"layers.#.feed_forward.experts.@.w1.weight", "blk.#.ffn_gate_exps.weight", kExpert},
    {"layers.#.feed_forward.experts.@.w2.weight", "blk.#.ffn_down_exps.weight", kExpert},
    {"layers.#.feed_forward.experts.@.w3.weight", "blk.#.ffn_up_exps.weight", kExpert},
};

constexpr HfRule kQwenVlExperts[] = {
    {"layers.#.mlp.gate.weight", "blk.#.ffn_gate_inp.weight"},
    {"layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_gate_exps.weight", kExpertsGateHalf},
    {"layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_up_exps.weight", kExpertsUpHalf},
    {"layers.#.mlp.experts.down_proj", "blk.#.ffn_down_exps.weight", kExpertsDown},
};

constexpr HfRule kPhi3[] = {
    {"layers.#.self_attn.qkv_proj.weight", "blk.#.attn_qkv.weight"},
    {"layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight"},
    {"layers.#.mlp.gate_up_proj.weight", "blk.#.ffn_up.weight"},
};

// Four norms a block, kept as w - 1. They stand before kHalfSplitAttention, whose rules for q_norm and k_norm
// are those of qwen3.
constexpr HfRule kGemma[] = {
    {"norm.weight", "output_norm.weight", kAddOne},
    {"layers.#.input_layernorm.weight", "blk.#.attn_norm.weight", kAddOne},
    {"layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight", kAddOne},
    {"layers.#.pre_feedforward_layernorm.weight", "blk.#.ffn_norm.weight", kAddOne},
    {"layers.#.post_feedforward_layernorm.weight", "blk.#.post_ffw_norm.weight", kAddOne},
    {"layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight", kAddOne},
    {"layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight", kAddOne},
    {"layers.#.mlp.gate_proj.weight", "blk.#.ffn_gate.weight"},
    {"layers.#.mlp.up_proj.weight", "blk.#.ffn_up.weight"},
    {"layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight"},
};

// Norms as they are, unlike those of 2 and 3.
constexpr HfRule kGemma4[] = {
    {"norm.weight", "output_norm.weight"},
    {"embed_tokens_per_layer.weight", "per_layer_token_embd.weight"},
    {"per_layer_model_projection.weight", "per_layer_model_proj.weight"},
    {"per_layer_projection_norm.weight", "per_layer_proj_norm.weight"},
    {"layers.#.input_layernorm.weight", "blk.#.attn_norm.weight"},
    {"layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight"},
    {"layers.#.pre_feedforward_layernorm.weight", "blk.#.ffn_norm.weight"},
    {"layers.#.post_feedforward_layernorm.weight", "blk.#.post_ffw_norm.weight"},
    {"layers.#.mlp.gate_proj.weight", "blk.#.ffn_gate.weight"},
    {"layers.#.mlp.up_proj.weight", "blk.#.ffn_up.weight"},
    {"layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight"},
    {"layers.#.layer_scalar", "blk.#.layer_output_scale.weight"},
    {"layers.#.per_layer_input_gate.weight", "blk.#.inp_gate.weight"},
    {"layers.#.per_layer_projection.weight", "blk.#.proj.weight"},
    {"layers.#.post_per_layer_input_norm.weight", "blk.#.post_norm.weight"},
    {"layers.#.pre_feedforward_layernorm_2.weight", "blk.#.pre_ffw_norm_2.weight"},
    {"layers.#.post_feedforward_layernorm_1.weight", "blk.#.post_ffw_norm_1.weight"},
    {"layers.#.post_feedforward_layernorm_2.weight", "blk.#.post_ffw_norm_2.weight"},
    {"layers.#.router.proj.weight", "blk.#.ffn_gate_inp.weight"},
    {"layers.#.router.scale", "blk.#.ffn_gate_inp.scale"},
    {"layers.#.router.per_expert_scale", "blk.#.ffn_down_exps.scale"},
    {"layers.#.experts.gate_up_proj", "blk.#.ffn_gate_up_exps.weight"},
    {"layers.#.experts.down_proj", "blk.#.ffn_down_exps.weight"},
};

constexpr HfRule kNemotronH[] = {
    {"embeddings.weight", "token_embd.weight"},
    {"norm_f.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
    {"layers.#.norm.weight", "blk.#.attn_norm.weight"},
    {"layers.#.mixer.in_proj.weight", "blk.#.ssm_in.weight"},
    {"layers.#.mixer.conv1d.weight", "blk.#.ssm_conv1d.weight", kNoMiddle},
    {"layers.#.mixer.conv1d.bias", "blk.#.ssm_conv1d.bias"},
    {"layers.#.mixer.dt_bias", "blk.#.ssm_dt.bias"},
    {"layers.#.mixer.A_log", "blk.#.ssm_a", kMambaA},
    {"layers.#.mixer.D", "blk.#.ssm_d", kColumn},
    {"layers.#.mixer.norm.weight", "blk.#.ssm_norm.weight", kGroupRows},
    {"layers.#.mixer.out_proj.weight", "blk.#.ssm_out.weight"},
    {"layers.#.mixer.q_proj.weight", "blk.#.attn_q.weight"},
    {"layers.#.mixer.k_proj.weight", "blk.#.attn_k.weight"},
    {"layers.#.mixer.v_proj.weight", "blk.#.attn_v.weight"},
    {"layers.#.mixer.o_proj.weight", "blk.#.attn_output.weight"},
    {"layers.#.mixer.up_proj.weight", "blk.#.ffn_up.weight"},
    {"layers.#.mixer.down_proj.weight", "blk.#.ffn_down.weight"},
    {"layers.#.mixer.gate.weight", "blk.#.ffn_gate_inp.weight"},
    {"layers.#.mixer.gate.e_score_correction_bias", "blk.#.exp_probs_b.bias"},
    {"layers.#.mixer.experts.@.up_proj.weight", "blk.#.ffn_up_exps.weight", kExpert},
    {"layers.#.mixer.experts.@.down_proj.weight", "blk.#.ffn_down_exps.weight", kExpert},
    {"layers.#.mixer.shared_experts.up_proj.weight", "blk.#.ffn_up_shexp.weight"},
    {"layers.#.mixer.shared_experts.down_proj.weight", "blk.#.ffn_down_shexp.weight"},
};

constexpr HfRule kGraniteMamba[] = {
    {"layers.#.mamba.in_proj.weight", "blk.#.ssm_in.weight"},
    {"layers.#.mamba.conv1d.weight", "blk.#.ssm_conv1d.weight", kNoMiddle},
    {"layers.#.mamba.conv1d.bias", "blk.#.ssm_conv1d.bias"},
    {"layers.#.mamba.dt_bias", "blk.#.ssm_dt.bias"},
    {"layers.#.mamba.A_log", "blk.#.ssm_a", kMambaA},
    {"layers.#.mamba.D", "blk.#.ssm_d", kColumn},
    {"layers.#.mamba.norm.weight", "blk.#.ssm_norm.weight", kGroupRows},
    {"layers.#.mamba.out_proj.weight", "blk.#.ssm_out.weight"},
};

constexpr HfRule kDeepseek2[] = {
    {"layers.#.self_attn.q_proj.weight", "blk.#.attn_q.weight"},
    {"layers.#.self_attn.q_a_proj.weight", "blk.#.attn_q_a.weight"},
    {"layers.#.self_attn.q_a_layernorm.weight", "blk.#.attn_q_a_norm.weight"},
    {"layers.#.self_attn.q_b_proj.weight", "blk.#.attn_q_b.weight"},
    {"layers.#.self_attn.kv_a_proj_with_mqa.weight", "blk.#.attn_kv_a_mqa.weight"},
    {"layers.#.self_attn.kv_a_layernorm.weight", "blk.#.attn_kv_a_norm.weight"},
    {"layers.#.self_attn.kv_b_proj.weight", "blk.#.attn_k_b.weight", kLatentKeys},
    {"layers.#.self_attn.kv_b_proj.weight", "blk.#.attn_v_b.weight", kLatentValues},
    {"layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight"},
    {"layers.#.mlp.gate.e_score_correction_bias", "blk.#.exp_probs_b.bias"},
    {"layers.#.mlp.shared_experts.gate_proj.weight", "blk.#.ffn_gate_shexp.weight"},
    {"layers.#.mlp.shared_experts.up_proj.weight", "blk.#.ffn_up_shexp.weight"},
    {"layers.#.mlp.shared_experts.down_proj.weight", "blk.#.ffn_down_shexp.weight"},
};

constexpr HfRule kGpt2[] = {
    {"wte.weight", "token_embd.weight"},
    {"wpe.weight", "position_embd.weight"},
    {"h.#.ln_1.weight", "blk.#.attn_norm.weight"},
    {"h.#.ln_1.bias", "blk.#.attn_norm.bias"},
    {"h.#.attn.c_attn.weight", "blk.#.attn_qkv.weight", kTranspose},
    {"h.#.attn.c_attn.bias", "blk.#.attn_qkv.bias"},
    {"h.#.attn.c_proj.weight", "blk.#.attn_output.weight", kTranspose},
    {"h.#.attn.c_proj.bias", "blk.#.attn_output.bias"},
    {"h.#.ln_2.weight", "blk.#.ffn_norm.weight"},
    {"h.#.ln_2.bias", "blk.#.ffn_norm.bias"},
    {"h.#.mlp.c_fc.weight", "blk.#.ffn_up.weight", kTranspose},
    {"h.#.mlp.c_fc.bias", "blk.#.ffn_up.bias"},
    {"h.#.mlp.c_proj.weight", "blk.#.ffn_down.weight", kTranspose},
    {"h.#.mlp.c_proj.bias", "blk.#.ffn_down.bias"},
    {"ln_f.weight", "output_norm.weight"},
    {"ln_f.bias", "output_norm.bias"},
    {"lm_head.weight", "output.weight"},
    {"h.#.attn.bias", "", kIgnore},  // the causal mask
    {"h.#.attn.masked_bias", "", kIgnore},
};

constexpr HfArchitecture kArchitectures[] = {
    {"LlamaForCausalLM", "llama", read_llama_config, {kEnds, kLlamaAttention, kPreNorms}, false},
    {"MistralForCausalLM", "llama", read_mistral_config, {kEnds, kLlamaAttention, kPreNorms}, false},
    {"MixtralForCausalLM",
     "llama",
     read_mistral_config,
     {kEnds, kLlamaAttention, kPreNorms, kMixtralExperts},
     false},
    {"Qwen2ForCausalLM", "qwen2", read_qwen2_config, {kEnds, kHalfSplitAttention, kPreNorms}, false},
    {"Qwen3ForCausalLM", "qwen3", read_qwen3_config, {kEnds, kHalfSplitAttention, kPreNorms}, false},
    {"Qwen3MoeForCausalLM",
     "qwen3moe",
     read_qwen3_config,
     {kEnds, kHalfSplitAttention, kPreNorms, kQwenExperts},
     false},
    {"Qwen3VLForConditionalGeneration",
     "qwen3vl",
     read_qwen3vl_config,
     {kEnds, kHalfSplitAttention, kPreNorms},
     false},
    {"Qwen3VLMoeForConditionalGeneration",
     "qwen3vlmoe",
     read_qwen3vl_config,
     {kEnds, kHalfSplitAttention, kPreNorms, kQwenVlExperts},
     false},
    {"Mistral3ForConditionalGeneration",
     "mistral3",
     read_mistral3_config,
     {kEnds, kLlamaAttention, kPreNorms},
     false},
    {"Ministral3ForCausalLM", "mistral3", read_mistral3_config, {kEnds, kLlamaAttention, kPreNorms}, false},
    {"SmolLM3ForCausalLM", "smollm3", read_smollm3_config, {kEnds, kLlamaAttention, kPreNorms}, true},
    {"GraniteForCausalLM", "granite", read_granite_config, {kEnds, kLlamaAttention, kPreNorms}, false},
    {"GraniteMoeForCausalLM",
     "granitemoe",
     read_granite_config,
     {kEnds, kLlamaAttention, kPreNorms, kGraniteExperts},
     false},
    {"GraniteMoeSharedForCausalLM",
     "granitemoe",
     read_granite_config,
     {kEnds, kLlamaAttention, kPreNorms, kGraniteExperts},
     false},
    {"Olmo2ForCausalLM", "olmo2", read_olmo2_config, {kEnds, kOlmo2, kHalfSplitAttention, kPreNorms}, false},
    {"Olmo3ForCausalLM", "olmo2", read_olmo2_config, {kEnds, kOlmo2, kHalfSplitAttention, kPreNorms}, false},
    {"Glm4MoeForCausalLM",
     "glm4moe",
     read_glm4moe_config,
     {kEnds, kGlm4Moe, kHalfSplitAttention, kPreNorms, kQwenExperts},
     false,
     true},
    {"MiniMaxM2ForCausalLM",
     "minimax-m2",
     read_minimax_config,
     {kEnds, kMiniMax, kHalfSplitAttention, kPreNorms, kMixtralExperts},
     false,
     true},
    {"Qwen3_5ForCausalLM",
     "qwen35",
     read_qwen35_config,
     {kEnds, kDeltaNet, kHalfSplitAttention, kPreNorms},
     false},
    {"Qwen3_5ForConditionalGeneration",
     "qwen35",
     read_qwen35_config,
     {kEnds, kDeltaNet, kHalfSplitAttention, kPreNorms},
     false},
    {"Qwen3_5MoeForCausalLM",
     "qwen35moe",
     read_qwen35_config,
     {kEnds, kDeltaNet, kHalfSplitAttention, kQwenExperts, kSharedExpert},
     false},
    {"Qwen3_5MoeForConditionalGeneration",
     "qwen35moe",
     read_qwen35_config,
     {kEnds, kDeltaNet, kHalfSplitAttention, kQwenExperts, kSharedExpert},
     false},
    {"Qwen3NextForCausalLM",
     "qwen3next",
     read_qwen35_config,
     {kEnds, kDeltaNet, kHalfSplitAttention, kQwenExperts, kSharedExpert},
     false},
    {"GptOssForCausalLM", "gpt-oss", read_gpt_oss_config, {kEnds, kGptOss, kHalfSplitAttention}, false},
    {"Lfm2ForCausalLM", "lfm2", read_lfm2_config, {kEnds, kLfm2, kHalfSplitAttention}, true},
    {"Lfm2MoeForCausalLM", "lfm2moe", read_lfm2_config, {kEnds, kLfm2, kHalfSplitAttention}, true},
    {"Phi3ForCausalLM", "phi3", read_phi3_config, {kEnds, kPhi3, kPreNorms}, false},
    {"Gemma2ForCausalLM", "gemma2", read_gemma_config, {kEnds, kGemma, kHalfSplitAttention}, true},
    {"Gemma3ForCausalLM", "gemma3", read_gemma_config, {kEnds, kGemma, kHalfSplitAttention}, true},
    {"Gemma3ForConditionalGeneration",
     "gemma3",
     read_gemma_config,
     {kEnds, kGemma, kHalfSplitAttention},
     true},
    {"Gemma4ForCausalLM", "gemma4", read_gemma4_config, {kEnds, kGemma4, kHalfSplitAttention}, true},
    {"Gemma4ForConditionalGeneration",
     "gemma4",
     read_gemma4_config,
     {kEnds, kGemma4, kHalfSplitAttention},
     true},
    {.class_name = "NemotronHForCausalLM",
     .gguf_name = "nemotron_h_moe",
     .read_config = read_nemotron_h_config,
     .rules = {kNemotronH},
     .tied = false,
     .with_key = "n_routed_experts"},
    {"NemotronHForCausalLM", "nemotron_h", read_nemotron_h_config, {kNemotronH}, false},
    {"GraniteMoeHybridForCausalLM",
     "granitehybrid",
     read_granitehybrid_config,
     {kEnds, kLlamaAttention, kPreNorms, kGraniteExperts, kGraniteMamba},
     true},
    {"DeepseekV2ForCausalLM",
     "deepseek2",
     read_deepseek2_config,
     {kEnds, kDeepseek2, kPreNorms, kQwenExperts},
     false,
     true},
    {"DeepseekV3ForCausalLM",
     "deepseek2",
     read_deepseek2_config,
     {kEnds, kDeepseek2, kPreNorms, kQwenExperts},
     false,
     true},
    {"Glm4MoeLiteForCausalLM",
     "deepseek2",
     read_deepseek2_config,
     {kEnds, kDeepseek2, kPreNorms, kQwenExperts},
     false,
     true},
    {"GPT2LMHeadModel", "gpt2", read_gpt2_config, {kGpt2}, true},
};
static_assert(covers_architectures(kArchitectures, &HfArchitecture::gguf_name));

}  // namespace

std::span<const HfArchitecture> hf_architectures() { return kArchitectures; }

const HfArchitecture& hf_architecture_of(const JsonObject& config) {
  const std::vector<std::string> found = config.strings("architectures");
  std::vector<std::string_view> known;
  for (const HfArchitecture& row : kArchitectures) {
    if (std::find(found.begin(), found.end(), row.class_name) != found.end() &&
        (row.with_key.empty() || config.has(row.with_key)))
      return row;
    known.push_back(row.class_name);
  }
  fail(Errc::kUnsupported, "{}: key architectures: '{}' is not supported; this build reads {}", config.file(),
       printable(fmt::format("{}", fmt::join(found, ", "))), fmt::join(known, ", "));
}

}  // namespace butterfly::model
