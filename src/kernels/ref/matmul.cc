#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "kernels/matmul/subtree_sums.h"
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

// Every subtree of one output: sum(begin, end) is the chain over those columns.
template <typename Sum>
void each_output(const MatmulJob& job, size_t m, size_t row, Sum&& sum) {
  std::array<float, kShardsMax> sums;
  for (ShardWalk walk(job.cuts); walk; walk.next()) {
    sums[walk.shard()] = sum(walk.begin(), walk.end());
    if (!walk.last()) continue;
    job.y[m * job.y_stride + walk.subtree() * job.subtree_stride + row] =
        shard_tree({sums.data(), walk.shards()});
  }
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
      each_output(job, m, row, [&](size_t begin, size_t end) {
        float acc = 0;
        for (size_t b = begin / info.block_values; b < end / info.block_values; ++b) {
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
        return acc;
      });
    }
  });
}

// value(row, k) gives a weight as float.
template <typename Value>
void floats(const MatmulJob& job, Value&& value) {
  each_row(job, [&](size_t row) {
    for (size_t m = 0; m < job.m; ++m) {
      const auto* x = reinterpret_cast<const float*>(job.acts + m * job.act_stride);
      each_output(job, m, row, [&](size_t begin, size_t end) {
        float acc = 0;
        for (size_t k = begin; k < end; ++k) acc = std::fma(x[k], value(row, k), acc);
        return acc;
      });
    }
  });
}

float plain_value(DType dtype, const std::byte* values, size_t index) {
  if (dtype == DType::kF32) return reinterpret_cast<const float*>(values)[index];
  const uint16_t half = reinterpret_cast<const uint16_t*>(values)[index];
  return dtype == DType::kF16 ? f16_to_f32(half) : bf16_to_f32(half);
}

}  // namespace

float shard_tree(std::span<float> sums) {
  if (sums.size() == 1) return sums[0];
  for (size_t count = sums.size() / 2; count >= 1; count /= 2)
    for (size_t i = 0; i < count; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
  return std::isnan(sums[0]) ? std::bit_cast<float>(kTreeNan) : sums[0];
}

namespace {

// The tree over shards [first, first + count) of one output, from the sums that are there.
float subtree_sum(std::span<const SubtreeSums> parts, size_t first, size_t count, size_t row, size_t output) {
  for (const SubtreeSums& part : parts)
    if (part.subtree == Subtree{first, count}) return part.rows[row * part.stride + output];
  return subtree_sum(parts, first, count / 2, row, output) +
         subtree_sum(parts, first + count / 2, count / 2, row, output);
}

}  // namespace

void sum_subtrees(std::span<const SubtreeSums> parts, size_t m, float* y, size_t y_stride, size_t begin,
                  size_t end) {
  const size_t count = parts.back().subtree.first + parts.back().subtree.count;
  for (size_t row = 0; row < m; ++row)
    for (size_t output = begin; output < end; ++output) {
      const float sum = subtree_sum(parts, 0, count, row, output);
      y[row * y_stride + output] = std::isnan(sum) && parts.size() > 1 ? std::bit_cast<float>(kTreeNan) : sum;
    }
}

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
