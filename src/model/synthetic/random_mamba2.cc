// The layouts with Mamba-2 layers for random models. nemotron_h: a mixer, attention, a feed-forward part,
// each a layer of its own; granitehybrid: two mixers, then attention, with a feed-forward part in all of
// them.
#include "model/synthetic/random_layouts.h"

namespace butterfly::model {
namespace {

constexpr uint32_t kPeriod = 3, kTaps = 4;
constexpr int64_t kHead = 32, kState = 16;  // columns of a head, and of the state

struct MambaSizes {
  MambaSizes(const RandomModelOptions& o, int64_t of_groups)
      : inner(2 * int64_t{o.embedding_length}), heads(inner / kHead), groups(of_groups) {}
  int64_t inner, heads, groups;
  int64_t columns() const { return inner + 2 * groups * kState; }
};

void add_mamba_metadata(const MambaSizes& sizes, const std::string& arch, Metadata& metadata) {
  metadata.set(arch + ".ssm.conv_kernel", kTaps);
  metadata.set(arch + ".ssm.inner_size", static_cast<uint32_t>(sizes.inner));
  metadata.set(arch + ".ssm.state_size", static_cast<uint32_t>(kState));
  metadata.set(arch + ".ssm.time_step_rank", static_cast<uint32_t>(sizes.heads));
  metadata.set(arch + ".ssm.group_count", static_cast<uint32_t>(sizes.groups));
}

void mixer(LayoutBuilder& to, const std::string& block, const MambaSizes& s) {
  const int64_t dim = to.size.dim;
  const auto floats = [&](const char* name, Shape shape, float mean, float deviation) {
    to.plan.push_back({block + name, shape, DType::kF32, mean, deviation});
  };
  to.norm(block + "attn_norm.weight", dim);
  to.matrix(block + "ssm_in.weight", s.inner + s.columns() + s.heads, dim, to.size.from_dim);
  floats("ssm_conv1d.weight", Shape{s.columns(), int64_t{kTaps}}, 0, 0.5f);
  to.bias(block + "ssm_conv1d.bias", s.columns(), 0.1f);
  to.bias(block + "ssm_dt.bias", s.heads, 0.5f);
  floats("ssm_a", Shape{s.heads, 1}, -0.2f, 0.05f);  // decays of about 0.9
  floats("ssm_d", Shape{s.heads, 1}, 1, 0.2f);
  floats("ssm_norm.weight", Shape{s.groups, s.inner / s.groups}, 1, 0.02f);
  to.matrix(block + "ssm_out.weight", dim, s.inner, to.size.residual * 0.7f * to.size.from_dim);
}

enum class Part { kMixer, kAttention, kFeedForward };
Part part_of(uint32_t layer) { return static_cast<Part>(layer % kPeriod); }

void add_nemotron_metadata(const RandomModelOptions& o, const std::string& arch, Metadata& metadata) {
  add_rms_metadata(o, arch, metadata);
  add_mamba_metadata({o, o.head_count_kv}, arch, metadata);
  metadata.set(arch + ".attention.layer_norm_epsilon", 1e-5f);
  std::vector<int32_t> kv_heads, widths;
  for (uint32_t layer = 0; layer < o.block_count; ++layer) {
    const Part part = part_of(layer);
    kv_heads.push_back(part == Part::kAttention ? static_cast<int32_t>(o.head_count_kv) : 0);
    widths.push_back(part == Part::kFeedForward ? static_cast<int32_t>(o.feed_forward_length) : 0);
  }
  metadata.set(arch + ".attention.head_count_kv", i32_array(std::move(kv_heads)));
  metadata.set(arch + ".feed_forward_length", i32_array(std::move(widths)));
}

void squared_relu(LayoutBuilder& to, const std::string& block) {
  to.norm(block + "attn_norm.weight", to.size.dim);
  to.matrix(block + "ffn_up.weight", to.size.hidden, to.size.dim, to.size.from_dim);
  to.matrix(block + "ffn_down.weight", to.size.dim, to.size.hidden, to.size.residual * to.size.from_hidden);
}

void squared_relu_moe(LayoutBuilder& to, const std::string& block) {
  const int64_t dim = to.size.dim, hidden = to.size.hidden;
  to.norm(block + "attn_norm.weight", dim);
  to.plan.push_back({block + "ffn_gate_inp.weight", Shape{to.options.expert_count, dim}, DType::kF32, 0.0f,
                     2 * to.size.from_dim});
  to.bias(block + "exp_probs_b.bias", to.options.expert_count, 0.2f);
  to.experts(block + "ffn_up_exps.weight", hidden, dim, to.size.from_dim);
  to.experts(block + "ffn_down_exps.weight", dim, hidden, to.size.residual * to.size.from_hidden);
  to.matrix(block + "ffn_up_shexp.weight", hidden, dim, to.size.from_dim);
  to.matrix(block + "ffn_down_shexp.weight", dim, hidden, to.size.residual * to.size.from_hidden);
}

std::vector<TensorPlan> plan_nemotron(const RandomModelOptions& o, bool experts) {
  LayoutBuilder to(o);
  to.embedding_as_head();
  uint32_t layer = 0;
  for_each_block(o, [&](const std::string& block) {
    const Part part = part_of(layer++);
    if (part == Part::kMixer)
      mixer(to, block, {o, o.head_count_kv});
    else if (part == Part::kAttention)
      to.attention(block);
    else
      (experts ? squared_relu_moe : squared_relu)(to, block);
  });
  to.output();
  return std::move(to.plan);
}

}  // namespace

void add_nemotron_h_metadata(const RandomModelOptions& o, Metadata& metadata) {
  add_nemotron_metadata(o, "nemotron_h", metadata);
}

void add_nemotron_h_moe_metadata(const RandomModelOptions& o, Metadata& metadata) {
  add_nemotron_metadata(o, "nemotron_h_moe", metadata);
  add_expert_metadata(o, "nemotron_h_moe", metadata);
  metadata.set("nemotron_h_moe.expert_feed_forward_length", o.feed_forward_length);
  metadata.set("nemotron_h_moe.expert_shared_feed_forward_length", o.feed_forward_length);
  metadata.set("nemotron_h_moe.expert_shared_count", uint32_t{1});
  metadata.set("nemotron_h_moe.expert_weights_norm", true);
  metadata.set("nemotron_h_moe.expert_weights_scale", 1.5f);
}

void add_granitehybrid_metadata(const RandomModelOptions& o, Metadata& metadata) {
  add_rms_metadata(o, "granitehybrid", metadata);
  add_granite_scales("granitehybrid", metadata);
  add_mamba_metadata({o, 1}, "granitehybrid", metadata);
  std::vector<int32_t> kv_heads;
  for (uint32_t layer = 0; layer < o.block_count; ++layer)
    kv_heads.push_back(layer % kPeriod == kPeriod - 1 ? static_cast<int32_t>(o.head_count_kv) : 0);
  metadata.set("granitehybrid.attention.head_count_kv", i32_array(std::move(kv_heads)));
  metadata.set("granitehybrid.rope.scaling.finetuned", false);
  add_expert_metadata(o, "granitehybrid", metadata);
  metadata.set("granitehybrid.expert_shared_feed_forward_length", o.feed_forward_length);
}

std::vector<TensorPlan> plan_nemotron_h(const RandomModelOptions& o) { return plan_nemotron(o, false); }
std::vector<TensorPlan> plan_nemotron_h_moe(const RandomModelOptions& o) { return plan_nemotron(o, true); }

std::vector<TensorPlan> plan_granitehybrid(const RandomModelOptions& o) {
  LayoutBuilder to(o);
  to.embedding(o.tied ? 2 * to.size.from_dim : 0.1f);
  uint32_t layer = 0;
  for_each_block(o, [&](const std::string& block) {
    if (layer++ % kPeriod == kPeriod - 1)
      to.attention(block);
    else
      mixer(to, block, {o, 1});
    to.moe(block);
    to.shared_expert(block);
  });
  to.output();
  return std::move(to.plan);
}

}  // namespace butterfly::model
