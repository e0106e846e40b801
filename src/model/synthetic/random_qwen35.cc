// The layouts of qwen35, qwen35moe and qwen3next for random models: three layers of linear attention, then
// one whose attention is gated.
#include <algorithm>

#include "base/checked.h"
#include "base/error.h"
#include "model/synthetic/random_layouts.h"

namespace butterfly::model {
namespace {

constexpr uint32_t kInterval = 4;  // every fourth layer attends
constexpr uint32_t kTaps = 4;

uint32_t or_default(uint32_t asked, uint32_t otherwise) { return asked != 0 ? asked : otherwise; }

// Heads of linear attention have a multiple of 16 values.
struct DeltaSizes {
  explicit DeltaSizes(const RandomModelOptions& o)
      : dim(o.state_length != 0
                ? int64_t{o.state_length}
                : static_cast<int64_t>(round_up(static_cast<uint64_t>(RandomSizes(o).head_dim), 16))),
        key_heads(or_default(o.state_head_count_kv, o.head_count_kv)),
        value_heads(or_default(o.state_head_count, o.head_count)),
        keys(dim * key_heads),
        values(dim * value_heads) {
    if (dim % 16 != 0) fail(Errc::kInvalidArgument, "state length {} is not a multiple of 16", dim);
    if (value_heads % key_heads != 0)
      fail(Errc::kInvalidArgument, "{} state heads is not a multiple of {} key heads", value_heads,
           key_heads);
  }
  int64_t dim, key_heads, value_heads, keys, values;
};

void add_metadata(const RandomModelOptions& o, const std::string& arch, Metadata& metadata) {
  add_rms_metadata(o, arch, metadata);
  const DeltaSizes delta(o);
  const auto rotated = static_cast<uint32_t>(std::max<int64_t>(2, RandomSizes(o).head_dim / 4 * 2));
  metadata.set(arch + ".rope.dimension_count", rotated);
  if (arch != "qwen3next") {
    const auto third = static_cast<int32_t>(rotated / 6);
    metadata.set(arch + ".rope.dimension_sections",
                 i32_array({static_cast<int32_t>(rotated / 2) - 2 * third, third, third, 0}));
  }
  metadata.set(arch + ".ssm.conv_kernel", kTaps);
  metadata.set(arch + ".ssm.inner_size", static_cast<uint32_t>(delta.values));
  metadata.set(arch + ".ssm.state_size", static_cast<uint32_t>(delta.dim));
  metadata.set(arch + ".ssm.time_step_rank", static_cast<uint32_t>(delta.value_heads));
  metadata.set(arch + ".ssm.group_count", static_cast<uint32_t>(delta.key_heads));
  metadata.set(arch + ".full_attention_interval", kInterval);
}

void add_moe_metadata(const RandomModelOptions& o, const std::string& arch, Metadata& metadata) {
  add_metadata(o, arch, metadata);
  add_expert_metadata(o, arch, metadata);
  metadata.set(arch + ".expert_feed_forward_length", o.feed_forward_length);
  metadata.set(arch + ".expert_shared_feed_forward_length", o.feed_forward_length);
}

void floats(LayoutBuilder& to, std::string name, Shape shape, float mean, float deviation) {
  to.plan.push_back({std::move(name), shape, DType::kF32, mean, deviation});
}

void delta_net(LayoutBuilder& to, const std::string& block, bool fused) {
  const DeltaSizes d(to.options);
  const float from_dim = to.size.from_dim;
  to.norm(block + "attn_norm.weight", to.size.dim);
  to.matrix(block + "attn_qkv.weight", 2 * d.keys + d.values, to.size.dim, from_dim);
  to.matrix(block + "attn_gate.weight", d.values, to.size.dim, from_dim);
  floats(to, block + "ssm_conv1d.weight", Shape{2 * d.keys + d.values, int64_t{kTaps}}, 0, 0.5f);
  to.bias(block + "ssm_dt.bias", d.value_heads, 0.5f);
  floats(to, block + "ssm_a", Shape{d.value_heads}, -0.2f, 0.05f);  // decays of about 0.9
  if (fused) {
    to.matrix(block + "ssm_ba.weight", 2 * d.value_heads, to.size.dim, from_dim);
  } else {
    to.matrix(block + "ssm_beta.weight", d.value_heads, to.size.dim, from_dim);
    to.matrix(block + "ssm_alpha.weight", d.value_heads, to.size.dim, from_dim);
  }
  to.norm(block + "ssm_norm.weight", d.dim);
  to.matrix(block + "ssm_out.weight", to.size.dim, d.values, to.size.residual * to.size.from_q);
}

void gated_attention(LayoutBuilder& to, const std::string& block) {
  to.norm(block + "attn_norm.weight", to.size.dim);
  to.matrix(block + "attn_q.weight", 2 * to.size.q_dim, to.size.dim, to.size.from_dim);
  to.matrix(block + "attn_k.weight", to.size.kv_dim, to.size.dim, to.size.from_dim);
  to.matrix(block + "attn_v.weight", to.size.kv_dim, to.size.dim, to.size.from_dim);
  to.matrix(block + "attn_output.weight", to.size.dim, to.size.q_dim, to.size.residual * to.size.from_q);
  to.head_norms(block);
}

void shared_expert(LayoutBuilder& to, const std::string& block) {
  floats(to, block + "ffn_gate_inp_shexp.weight", Shape{to.size.dim}, 0, to.size.from_dim);
  to.shared_expert(block);
}

std::vector<TensorPlan> plan(const RandomModelOptions& o, bool experts, bool fused) {
  LayoutBuilder to(o);
  to.embedding_as_head();
  const auto feed_forward = [&](const std::string& block) {
    if (experts) {
      to.moe(block, "post_attention_norm");
      shared_expert(to, block);
    } else {
      to.gated_mlp(block, "post_attention_norm");
    }
  };
  uint32_t layer = 0;
  for_each_block(o, [&](const std::string& block) {
    if (++layer % kInterval == 0) {
      gated_attention(to, block);
    } else {
      delta_net(to, block, fused);
    }
    feed_forward(block);
  });
  for_each_predictor(o, [&](const std::string& block) {
    gated_attention(to, block);
    feed_forward(block);
    to.predictor(block);
  });
  to.output();
  return std::move(to.plan);
}

}  // namespace

void add_qwen35_metadata(const RandomModelOptions& o, Metadata& metadata) {
  add_metadata(o, "qwen35", metadata);
}
void add_qwen35moe_metadata(const RandomModelOptions& o, Metadata& metadata) {
  add_moe_metadata(o, "qwen35moe", metadata);
}
void add_qwen3next_metadata(const RandomModelOptions& o, Metadata& metadata) {
  add_moe_metadata(o, "qwen3next", metadata);
}

std::vector<TensorPlan> plan_qwen35(const RandomModelOptions& o) { return plan(o, false, false); }
std::vector<TensorPlan> plan_qwen35moe(const RandomModelOptions& o) { return plan(o, true, false); }
std::vector<TensorPlan> plan_qwen3next(const RandomModelOptions& o) { return plan(o, true, true); }

}  // namespace butterfly::model
