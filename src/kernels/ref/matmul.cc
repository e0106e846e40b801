#include <algorithm>
#include <cmath>

#include "kernels/panels/pack_table.h"
#include "kernels/simd/half.h"
#include "kernels/tiles/activation_rows.h"
#include "kernels/tiles/add_block.h"

namespace butterfly::kernels::ref {
namespace {

// Calls fn(row) for the rows of the job's panels.
template <typename F>
void each_row(const MatmulJob& job, F&& fn) {
  const size_t end = std::min(job.rows, job.panel_end * kPanelRows);
  for (size_t row = job.panel_begin * kPanelRows; row < end; ++row) fn(row);
}

// block(row, b, IntBlock*) gives the weights.
template <typename Block>
void quantised(DType dtype, const MatmulJob& job, Block&& block) {
  const DTypeInfo& info = dtype_info(dtype);
  const QuantType& type = quant_type(dtype);
  const ActLayout layout = act_layout(act_kind(dtype), job.cols);
  each_row(job, [&](size_t row) {
    for (size_t m = 0; m < job.m; ++m) {
      const std::byte* act = job.acts + m * job.act_stride;
      const auto* a = reinterpret_cast<const int8_t*>(act);
      const auto* d = reinterpret_cast<const float*>(act + layout.scales_offset);
      float acc = 0;
      for (size_t b = 0; b < job.cols / info.block_values; ++b) {
        IntBlock w;
        block(row, b, &w);
        int32_t sum = 0, mins = 0;
        for (size_t i = 0; i < info.block_values; ++i) {
          const size_t g = i / type.group_values;
          const int32_t x = a[b * info.block_values + i];
          sum += w.scale[g] * w.q[i] * x;
          mins += w.min[g] * x;
        }
        acc = add_block(acc, sum, mins, w, type.has_min, d[b]);
      }
      job.y[m * job.y_stride + row] = acc;
    }
  });
}

// value(row, k) gives a weight as float.
template <typename Value>
void floats(const MatmulJob& job, Value&& value) {
  each_row(job, [&](size_t row) {
    for (size_t m = 0; m < job.m; ++m) {
      const auto* x = reinterpret_cast<const float*>(job.acts + m * job.act_stride);
      float acc = 0;
      for (size_t k = 0; k < job.cols; ++k) acc = std::fma(x[k], value(row, k), acc);
      job.y[m * job.y_stride + row] = acc;
    }
  });
}

float plain_value(DType dtype, const std::byte* values, size_t index) {
  if (dtype == DType::kF32) return reinterpret_cast<const float*>(values)[index];
  const uint16_t half = reinterpret_cast<const uint16_t*>(values)[index];
  return dtype == DType::kF16 ? f16_to_f32(half) : bf16_to_f32(half);
}

}  // namespace

void matmul_panels(DType dtype, const MatmulJob& job) {
  const auto panel_of = [&](size_t row) { return job.panels + row / kPanelRows * job.panel_bytes; };
  if (dtype_info(dtype).quantised()) {
    const PackFormat& format = *pack_format(dtype);
    quantised(dtype, job, [&](size_t row, size_t b, IntBlock* to) {
      format.unpack(panel_of(row), job.cols, row % kPanelRows, b, to);
    });
  } else {
    floats(job, [&](size_t row, size_t k) {
      return plain_value(dtype, panel_of(row), k * kPanelRows + row % kPanelRows);
    });
  }
}

void matmul_rows(DType dtype, const MatmulJob& job) {
  const size_t row_bytes = job.panel_bytes / kPanelRows;
  if (dtype_info(dtype).quantised()) {
    const size_t block_bytes = dtype_info(dtype).block_bytes;
    quantised(dtype, job, [&](size_t row, size_t b, IntBlock* to) {
      quant_type(dtype).unpack(job.panels + row * row_bytes + b * block_bytes, to);
    });
  } else {
    floats(job, [&](size_t row, size_t k) { return plain_value(dtype, job.panels + row * row_bytes, k); });
  }
}

}  // namespace butterfly::kernels::ref
