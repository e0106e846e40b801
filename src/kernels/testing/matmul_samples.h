// For tests of products: weights of every type, activation rows, and the plain loops.
#pragma once
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "base/rng.h"
#include "kernels/panels/pack_table.h"
#include "kernels/quant/quant.h"
#include "kernels/quant/tame_scale.h"
#include "kernels/tiles/activation_rows.h"
#include "tensor/tensor.h"

namespace butterfly::kernels {

// A weight matrix with random valid blocks: quantised from normal values where a quantiser exists, else
// random bytes with tame scales.
inline Tensor random_weights(DType dtype, int64_t rows, int64_t cols, uint64_t seed) {
  Tensor w = Tensor::zeros(dtype, {rows, cols});
  const auto count = static_cast<size_t>(rows * cols);
  if (can_quantize(dtype)) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = random_normal(seed, 1, i);
    from_float(dtype, values.data(), w.raw(), count);
    return w;
  }
  auto* bytes = reinterpret_cast<uint8_t*>(w.raw());
  const size_t block_bytes = dtype_info(dtype).block_bytes;
  for (size_t i = 0; i < w.bytes(); ++i) bytes[i] = static_cast<uint8_t>(random_u64(seed, 2, i));
  for (size_t i = 0; i < w.bytes(); i += block_bytes) tame_scale(dtype, w.raw() + i);
  return w;
}

inline std::vector<DType> matmul_types() {
  std::vector<DType> types = {DType::kF32, DType::kF16, DType::kBF16};
  for (const QuantType& type : quant_table()) types.push_back(type.dtype);
  return types;
}

// Activation rows of the kind a type wants.
struct Acts {
  size_t stride;
  Buffer data;
};
// Columns [begin, end) of rows of k floats.
inline Acts acts_of(ActKind kind, const std::vector<float>& x, size_t k, size_t begin, size_t end) {
  const size_t m = x.size() / k;
  Acts acts{act_layout(kind, end - begin).row_bytes, {}};
  acts.data = Buffer::allocate(m * acts.stride);
  for (size_t i = 0; i < m; ++i) {
    const float* row = x.data() + i * k + begin;
    std::byte* to = acts.data.data() + i * acts.stride;
    if (kind == ActKind::kF32) {
      std::copy(row, row + (end - begin), reinterpret_cast<float*>(to));
    } else {
      quantize_activation(kind, row, end - begin, to);
    }
  }
  return acts;
}
inline std::vector<float> random_rows(size_t m, size_t k, uint64_t seed) {
  std::vector<float> x(m * k);
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < k; ++j) x[i * k + j] = random_normal(seed, 3 + i, j);
  return x;
}
inline Acts random_acts(ActKind kind, size_t m, size_t k, uint64_t seed) {
  return acts_of(kind, random_rows(m, k, seed), k, 0, k);
}

inline std::vector<uint32_t> bits(const std::vector<float>& values) {
  std::vector<uint32_t> out;
  for (float f : values) out.push_back(std::bit_cast<uint32_t>(f));
  return out;
}

// The truth: plain loops over the file layout. One subtree.
inline std::vector<float> truth(const Tensor& w, const Acts& acts, size_t m, const ShardCuts& cuts) {
  const auto rows = static_cast<size_t>(w.size(0));
  std::vector<float> y(m * rows, NAN);
  const MatmulJob job{.panels = w.raw(),
                      .panel_bytes = w.bytes() / rows * kPanelRows,
                      .panel_begin = 0,
                      .panel_end = (rows + kPanelRows - 1) / kPanelRows,
                      .rows = rows,
                      .cols = static_cast<size_t>(w.size(1)),
                      .acts = acts.data.data(),
                      .act_stride = acts.stride,
                      .m = m,
                      .y = y.data(),
                      .y_stride = rows,
                      .cuts = cuts,
                      .subtree_stride = 0};
  ref::matmul_rows(w.dtype(), job);
  return y;
}
inline std::vector<float> truth(const Tensor& w, const Acts& acts, size_t m) {
  return truth(w, acts, m, ShardCuts::none(static_cast<size_t>(w.size(1))));
}

}  // namespace butterfly::kernels
