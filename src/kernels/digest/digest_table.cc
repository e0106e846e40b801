#include "kernels/digest/digest_table.h"

#include <algorithm>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/rope.h"
#include "kernels/digest/digest_train.h"
#include "kernels/digest/test_floats.h"
#include "kernels/elementwise/activation.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/math/math.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/subtree_sums.h"
#include "kernels/norm/layer_norm.h"
#include "kernels/norm/rms_norm.h"
#include "kernels/quant/quant.h"
#include "kernels/quant/tame_scale.h"
#include "kernels/recurrent/causal_conv.h"
#include "kernels/recurrent/gated_delta.h"
#include "kernels/recurrent/selective_state.h"
#include "kernels/rows/gather.h"
#include "kernels/rows/reduce.h"
#include "kernels/rows/row_scan.h"
#include "kernels/rows/softmax.h"
#include "kernels/rows/weight_units.h"

namespace butterfly::kernels {
namespace {

// Around the vector widths, and one of many blocks.
constexpr size_t kCounts[] = {0, 1, 3, 4, 5, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 1000};

using Unary = void (*)(const float*, float*, size_t);
using Binary = void (*)(const float*, const float*, float*, size_t);
using Fold = float (*)(const float*, size_t);

// All magnitudes, subnormals, infinities and NaNs included, and then ordinary values.
template <Unary F>
void unary(Digest& digest) {
  auto x = float_sweep(299993);
  F(x.data(), x.data(), x.size());
  digest.add(x);
  for (size_t count : kCounts) {
    auto y = random_floats(count, count, 3.0f);
    F(y.data(), y.data(), count);
    digest.add(y);
  }
}

template <Binary F>
void binary(Digest& digest) {
  for (size_t count : kCounts) {
    const auto a = random_floats(count, 1), b = random_floats(count, 2);
    std::vector<float> out(count);
    F(a.data(), b.data(), out.data(), count);
    digest.add(out);
  }
}

template <Fold F>
void fold(Digest& digest) {
  for (size_t count : kCounts) digest.add(F(random_floats(count, count).data(), count));
}

void scale_by(const float* a, const float*, float* out, size_t count) { scale(a, 1.7f, out, count); }
void add_scaled_by(const float* a, const float* b, float* out, size_t count) {
  add_scaled(a, b, -0.3f, out, count);
}
void rms_norm_row(const float* x, const float* w, float* out, size_t count) {
  rms_norm(x, w, 1e-5f, out, count);
}
void layer_norm_row(const float* x, const float* w, float* out, size_t count) {
  layer_norm(x, w, w, 1e-5f, out, count);
}
void softmax_row(const float* x, const float*, float* out, size_t count) {
  scale(x, 5, out, count);
  softmax(out, count);
}
void soft_cap_row(const float* x, float* out, size_t count) {
  scale(x, 20, out, count);
  soft_cap(out, 30, count);
}

void dots(Digest& digest) {
  for (size_t count : kCounts) {
    const auto a = random_floats(count, 1), b = random_floats(count, 2);
    digest.add(dot(a.data(), b.data(), count));
    digest.add_word(argmax(a.data(), count));
  }
}

void doubles(Digest& digest) {
  for (uint64_t i = 0; i < 2000; ++i) {
    const double x = 700 * static_cast<double>(random_normal(1, 1, i));
    double sine = 0, cosine = 0;
    sincos_f64(1000 * x, &sine, &cosine);
    for (double v : {exp_f64(x), log_f64(std::fabs(x)), pow_f64(std::fabs(x), x / 300), sine, cosine})
      digest.add(v);
    digest.add(log_f32(static_cast<float>(std::fabs(x))));
  }
}

void ropes(Digest& digest) {
  for (RopeScaling scaling : {RopeScaling::kNone, RopeScaling::kLinear, RopeScaling::kNtk, RopeScaling::kYarn,
                              RopeScaling::kLlama3}) {
    const Rope angles(
        {.head_dim = 100, .rotated = 90, .scaling = scaling, .factor = 4, .original_context = 4096});
    std::vector<float> rotations(angles.rotation_floats());
    for (int64_t position : {0, 1, 777, 131071}) {
      angles.rotations(position, rotations.data());
      digest.add(rotations);
      for (RopeLayout layout : {RopeLayout::kInterleaved, RopeLayout::kHalfSplit}) {
        auto heads = random_floats(300, 1);
        rope(layout, rotations.data(), angles.pairs(), heads.data(), 3, 100);
        digest.add(heads);
      }
    }
  }
}

// A table of 37 rows of 512 values; random bytes with tame scales for the types that cannot be written.
constexpr size_t kRows = 37, kCols = 512;
std::vector<std::byte> weights_of(DType dtype) {
  const DTypeInfo& info = dtype_info(dtype);
  std::vector<std::byte> bytes(*dtype_bytes(dtype, kRows * kCols));
  if (can_quantize(dtype)) {
    const auto values = random_floats(kRows * kCols, 3);
    from_float(dtype, values.data(), bytes.data(), values.size());
    return bytes;
  }
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(random_u64(1, 2, i));
  for (size_t i = 0; i < bytes.size(); i += info.block_bytes) tame_scale(dtype, bytes.data() + i);
  return bytes;
}

template <class F>
void for_each_weight_type(F f) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) f(dtype);
  for (const QuantType& type : quant_table()) f(type.dtype);
}

void gathers(Digest& digest) {
  for_each_weight_type([&](DType dtype) {
    const auto bytes = weights_of(dtype);
    digest.add(bytes);
    const int32_t ids[] = {36, 0, 7};
    std::vector<float> out(3 * kCols);
    gather_rows({dtype, bytes, kCols}, ids, out.data());
    digest.add(out);
  });
}

// product(weights, activation rows, their stride, rows) for every type and some numbers of rows.
template <class F>
void for_each_product(F product) {
  for_each_weight_type([&](DType dtype) {
    Tensor weights = Tensor::zeros(dtype, {kRows, kCols});
    const auto bytes = weights_of(dtype);
    std::copy(bytes.begin(), bytes.end(), weights.raw());
    const PackedMatrix packed(weights);
    const size_t stride = act_layout(packed.act(), kCols).row_bytes;
    for (size_t m : {1, 2, 7}) {
      const Buffer acts = Buffer::allocate(m * stride);
      for (size_t i = 0; i < m; ++i) {
        const auto x = random_floats(kCols, 10 + i);
        std::byte* row = acts.data() + i * stride;
        if (packed.act() == ActKind::kF32) {
          std::copy(x.begin(), x.end(), reinterpret_cast<float*>(row));
        } else {
          quantize_activation(packed.act(), x.data(), kCols, row);
        }
      }
      product(packed, acts.data(), stride, m);
    }
  });
}

void matmuls(Digest& digest) {
  for_each_product([&](const PackedMatrix& weights, const std::byte* acts, size_t stride, size_t m) {
    std::vector<float> y(m * kRows);
    matmul(weights, acts, stride, m, y.data(), kRows, 0, kRows);
    digest.add(y);
  });
}

// The whole, and what a node with the middle shards has.
void shard_matmuls(Digest& digest) {
  for_each_product([&](const PackedMatrix& weights, const std::byte* acts, size_t stride, size_t m) {
    const Shards whole(shard_unit(weights.dtype()), kCols);
    std::vector<float> y(m * kRows);
    matmul_shards(weights, ShardCuts::whole(whole), acts, stride, m, y.data(), kRows, 0, 0, kRows);
    digest.add(y);
    // As shards 3 and 4 of a layer that is four times as wide: two subtrees.
    const ShardCuts cuts = ShardCuts::share(Shards(kCols / 2, kCols * 4), 3, 5);
    std::vector<float> parts(2 * m * kRows);
    matmul_shards(weights, cuts, acts, stride, m, parts.data(), 2 * kRows, kRows, 0, kRows);
    digest.add(parts);
    const SubtreeSums both[] = {{{0, 1}, parts.data(), 2 * kRows}, {{1, 1}, parts.data() + kRows, 2 * kRows}};
    sum_subtrees(both, m, y.data(), kRows, 0, kRows);
    digest.add(y);
  });
}

void attentions(Digest& digest) {
  constexpr size_t kLength = 100, kPages = (kLength + kKvPage - 1) / kKvPage;
  for (DType dtype : {DType::kF32, DType::kF16, DType::kQ8_0}) {
    for (size_t head_dim : {32, 96}) {
      const KvLayout layout{dtype, head_dim};
      const Buffer cache = Buffer::allocate(kPages * layout.page_bytes());
      for (size_t p = 0; p < kLength; ++p)
        kv_store(layout, cache.data() + p / kKvPage * layout.page_bytes(), p % kKvPage,
                 random_floats(head_dim, 100 + p).data(), random_floats(head_dim, 300 + p).data());
      uint32_t ids[kPages];
      for (uint32_t i = 0; i < kPages; ++i) ids[i] = i;
      const Buffer scratch = Buffer::allocate(attention_scratch_bytes(layout));
      for (const AttentionParams& params :
           {AttentionParams{0.2f, 0, 0}, AttentionParams{0.2f, 5.0f, 0}, AttentionParams{0.2f, 0, 40}}) {
        const auto q = random_floats(3 * head_dim, 5);
        std::vector<float> out(q.size());
        const AttentionQuery queries[] = {{&q[0], &out[0], 0},
                                          {&q[head_dim], &out[head_dim], 40, 0.5f},
                                          {&q[2 * head_dim], &out[2 * head_dim], kLength - 1}};
        attend(layout, params, {cache.data(), layout.page_bytes(), ids}, queries, 3, scratch.data());
        digest.add(out);
      }
    }
  }
}

void samplings(Digest& digest) {
  for (size_t count : kCounts) {
    auto row = random_floats(count, count, 4.0f);
    for (float& logit : row) logit = std::min(logit, 9.0f);
    for (const float temperature : {1.0f, 0.7f}) {
      const WeightScale scale{9.0f, temperature};
      digest.add_word(sum_units(row.data(), count, -2.0f, scale));
      std::vector<uint64_t> sums((count + 6) / 7);
      sum_unit_blocks(row.data(), count, 7, scale, sums.data());
      for (const uint64_t sum : sums) digest.add_word(sum);
      std::vector<float> weights(count);
      weigh_logits(row.data(), count, scale, weights.data());
      digest.add(weights);
    }
    std::vector<float> values(count), maxima((count + 6) / 7);
    std::vector<int32_t> indices(count);
    const size_t found = collect_between(row.data(), count, 3, -1.0f, 2.0f, values.data(), indices.data());
    digest.add_word(found);
    for (size_t i = 0; i < found; ++i) {
      digest.add(values[i]);
      digest.add_word(static_cast<uint64_t>(indices[i]));
    }
    digest.add_word(block_maxima(row.data(), count, 7, maxima.data()));
    digest.add(maxima);
    const std::vector<uint64_t> allowed((count + 63) / 64, 0x123456789abcdef0);
    keep_allowed(row.data(), count, allowed.data(), values.data());
    digest.add(values);
  }
}

void convolutions_over_time(Digest& digest) {
  for (size_t count : kCounts) {
    const auto x = random_floats(4 * count, 1), weights = random_floats(4 * count, 2);
    const float* rows[] = {x.data(), x.data() + count, x.data() + 2 * count, x.data() + 3 * count};
    std::vector<float> out(count);
    causal_conv({.taps = 4, .weights = weights.data(), .weight_stride = count, .silu = true}, rows,
                out.data(), count);
    digest.add(out);
  }
}

void delta_rules(Digest& digest) {
  for (const size_t key_dim : {1, 17, 128}) {
    const DeltaShape shape{.key_dim = key_dim, .value_dim = 80, .scale = 0.25f};
    std::vector<float> state = random_floats(shape.state_floats(), 3), out(shape.value_dim);
    for (size_t n = 0; n < 5; ++n) {
      const auto q = random_floats(key_dim, 10 + n), k = random_floats(key_dim, 20 + n, 0.1f),
                 v = random_floats(shape.value_dim, 30 + n);
      const DeltaToken token{q.data(), k.data(), v.data(), out.data(), 0.9f, 0.5f};
      gated_delta(shape, state.data(), state.data(), &token, 1);
      digest.add(out);
    }
    digest.add(state);
  }
}

void selective_states(Digest& digest) {
  for (const size_t state_dim : {1, 17, 128}) {
    const SelectiveShape shape{.state_dim = state_dim, .head_dim = 80, .skip = 0.3f};
    std::vector<float> state = random_floats(shape.state_floats(), 3), out(shape.head_dim);
    for (size_t n = 0; n < 5; ++n) {
      const auto b = random_floats(state_dim, 10 + n), c = random_floats(state_dim, 20 + n, 0.1f),
                 x = random_floats(shape.head_dim, 30 + n);
      const SelectiveToken token{b.data(), c.data(), x.data(), out.data(), 0.9f, 0.5f};
      selective_state(shape, state.data(), state.data(), &token, 1);
      digest.add(out);
    }
    digest.add(state);
  }
}

constexpr DigestRow kDigests[] = {
    {"sigmoid", unary<sigmoid>},
    {"tanh", unary<tanh>},
    {"silu", unary<silu>},
    {"gelu", unary<gelu>},
    {"gelu_erf", unary<gelu_erf>},
    {"relu", unary<relu>},
    {"soft_cap", unary<soft_cap_row>},
    {"swiglu", binary<swiglu>},
    {"geglu", binary<geglu>},
    {"swiglu_clamped", binary<swiglu_clamped>},
    {"add", binary<add>},
    {"sub", binary<sub>},
    {"mul", binary<mul>},
    {"scale", binary<scale_by>},
    {"add_scaled", binary<add_scaled_by>},
    {"softmax", binary<softmax_row>},
    {"sampling", samplings},
    {"rms_norm", binary<rms_norm_row>},
    {"layer_norm", binary<layer_norm_row>},
    {"dot, argmax", dots},
    {"sum", fold<sum>},
    {"sum_squares", fold<sum_squares>},
    {"max_value", fold<max_value>},
    {"double functions", doubles},
    {"rope", ropes},
    {"gather, quantise", gathers},
    {"matmul", matmuls},
    {"matmul of shards, sum_subtrees", shard_matmuls},
    {"attention", attentions},
    {"causal_conv", convolutions_over_time},
    {"gated_delta", delta_rules},
    {"selective_state", selective_states},
    {"gemm", digest_gemm},
    {"conv2d", digest_conv2d},
    {"pool2d", digest_pool2d},
    {"activation_backward", digest_activation_backward},
    {"norm_backward, batch_norm", digest_norm_backward},
    {"norm_backward of groups", digest_norm_parts_backward},
    {"cross_entropy, optimizer_update", digest_loss_and_optimizer},
    {"gated_delta_backward, selective_state_backward", digest_recurrent_backward},
};

}  // namespace

std::span<const DigestRow> digest_table() { return kDigests; }

}  // namespace butterfly::kernels
