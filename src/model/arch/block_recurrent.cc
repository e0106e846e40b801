// Recurrent layers of a block, whole or as a member of a group has them.
#include <utility>

#include "base/error.h"
#include "model/arch/decoder.h"
#include "model/arch/recurrent_share.h"

namespace butterfly::model {

nn::DeltaNet BlockLoader::delta_net(const graph::GatedDeltaShape& shape, size_t taps) const {
  const size_t dim = config_.dim, values = shape.value_heads * shape.value_dim;
  const size_t channels = 2 * shape.key_heads * shape.key_dim + values;
  weights_.refuse_training("recurrent layers");
  nn::DeltaNet net;
  if (!weights_.has(prefix_ + "attn_qkv.weight") && weights_.has(prefix_ + "ssm_in.weight"))
    fail(Errc::kUnsupported,
         "{}: tensor {}ssm_in.weight: files of before attn_qkv and attn_gate are not supported",
         weights_.file().path().string(), prefix_);
  const nn::ShardOwners owners =
      mixer_owners(weights_.group(), weights_.file(), prefix_ + "ssm_out", values, dim);
  const DeltaNetPart part = delta_net_part(shape, owners);
  const std::vector<MemberRange> here = part.channels(shape);
  const MemberRange heads = part.value_heads;
  net.qkv = weights_.gathered_linear(prefix_ + "attn_qkv", channels, dim, here);
  net.z = rows("attn_gate", values, dim, {heads.begin * shape.value_dim, heads.end * shape.value_dim});
  if (weights_.has(prefix_ + "ssm_ba.weight")) {
    // Of each key head its value heads' betas, then their alphas.
    const size_t group = shape.value_heads / shape.key_heads;
    std::vector<MemberRange> betas, alphas;
    for (size_t head = heads.begin; head < heads.end; ++head) {
      const size_t row = head / group * 2 * group + head % group;
      betas.push_back({row, row + 1});
      alphas.push_back({row + group, row + group + 1});
    }
    net.beta = weights_.gathered_linear(prefix_ + "ssm_ba", 2 * shape.value_heads, dim, betas);
    net.alpha = weights_.gathered_linear(prefix_ + "ssm_ba", 2 * shape.value_heads, dim, alphas);
  } else {
    net.beta = rows("ssm_beta", shape.value_heads, dim, heads);
    net.alpha = rows("ssm_alpha", shape.value_heads, dim, heads);
  }
  net.conv = weights_.transposed(prefix_ + "ssm_conv1d.weight", channels, taps, here);
  net.a = vector("ssm_a", shape.value_heads, heads);
  net.dt = vector("ssm_dt.bias", shape.value_heads, heads);
  net.norm = {nn::NormKind::kRms,
              weights_.vector(prefix_ + "ssm_norm.weight", shape.value_dim),
              {},
              config_.norm_eps};
  net.out = row_parallel("ssm_out", dim, values, owners);
  net.shape = part.shape;
  net.columns_before = part.columns_before;
  net.layer = index_;
  net.eps = config_.norm_eps;
  net.name = prefix_ + "delta_net";
  return net;
}

nn::ShortConv BlockLoader::short_conv(size_t taps) const {
  const size_t dim = config_.dim;
  weights_.refuse_training("recurrent layers");
  const nn::ShardOwners owners =
      mixer_owners(weights_.group(), weights_.file(), prefix_ + "shortconv.out_proj", dim, dim);
  const MemberRange here = owners ? owners.columns() : MemberRange{0, dim};
  auto parts =
      weights_.fused_linear(prefix_ + "shortconv.in_proj", {{dim, here}, {dim, here}, {dim, here}}, dim);
  return {.b = std::move(parts[0]),
          .c = std::move(parts[1]),
          .x = std::move(parts[2]),
          .conv = weights_.transposed(prefix_ + "shortconv.conv.weight", dim, taps, {&here, 1}),
          .out = row_parallel("shortconv.out_proj", dim, dim, owners),
          .layer = index_,
          .name = prefix_ + "shortconv"};
}

nn::SelectiveMixer BlockLoader::selective_mixer(const graph::SelectiveStateShape& shape, size_t taps) const {
  const size_t dim = config_.dim, inner = shape.heads * shape.head_dim, columns = shape.columns();
  const nn::ShardOwners owners =
      mixer_owners(weights_.group(), weights_.file(), prefix_ + "ssm_out", inner, dim);
  const SelectivePart part = selective_part(shape, owners);
  const MemberRange outputs{part.heads.begin * shape.head_dim, part.heads.end * shape.head_dim};
  const std::vector<MemberRange> here = part.channels(shape);
  std::vector<MemberRange> xbc = here;
  for (MemberRange& range : xbc) range = {inner + range.begin, inner + range.end};
  const MemberRange steps{inner + columns + part.heads.begin, inner + columns + part.heads.end};
  weights_.refuse_training("recurrent layers");
  nn::SelectiveMixer mixer;
  const auto in = [&](std::span<const MemberRange> rows) {
    return weights_.gathered_linear(prefix_ + "ssm_in", inner + columns + shape.heads, dim, rows);
  };
  mixer.z = in({&outputs, 1});
  mixer.xbc = in(xbc);
  mixer.dt = in({&steps, 1});
  mixer.conv = weights_.transposed(prefix_ + "ssm_conv1d.weight", columns, taps, here);
  mixer.conv_bias = weights_.gathered_vector(prefix_ + "ssm_conv1d.bias", columns, here);
  mixer.dt_bias = vector("ssm_dt.bias", shape.heads, part.heads);
  mixer.a = vector("ssm_a", shape.heads, part.heads);
  mixer.skip = vector("ssm_d", shape.heads, part.heads);
  mixer.gathers = part.gathers;
  mixer.norm = {nn::NormKind::kRms,
                vector("ssm_norm.weight", inner, part.gathers ? MemberRange{0, inner} : outputs),
                {},
                config_.norm_eps,
                part.gathers ? shape.groups : part.shape.groups};
  mixer.out = row_parallel("ssm_out", dim, inner, owners);
  mixer.shape = part.shape;
  mixer.columns_before = part.columns_before;
  mixer.layer = index_;
  mixer.name = prefix_ + "ssm";
  return mixer;
}

}  // namespace butterfly::model
