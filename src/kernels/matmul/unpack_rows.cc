#include "kernels/matmul/unpack_rows.h"

#include <algorithm>
#include <cstring>

#include "kernels/panels/pack_table.h"
#include "kernels/quant/quant.h"
#include "kernels/simd/half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul/unpack_rows.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd/simd-inl.h"

#ifndef BUTTERFLY_KERNELS_UNPACK_ROWS_PART_
#define BUTTERFLY_KERNELS_UNPACK_ROWS_PART_
namespace butterfly::kernels {
namespace {

struct Part {
  const PackedMatrix& weights;
  size_t row_begin, row_end, col_begin, col_end;
  float* to;
  size_t stride;
  float* row(size_t index) const { return to + (index - row_begin) * stride; }
};

}  // namespace
}  // namespace butterfly::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {
namespace {

// scale * q - min, rounded twice, as dequantize() rounds it; `count` is 16 or 32.
HWY_INLINE void ScaleGroup(const int8_t* q, size_t count, float scale, bool has_min, float min, float* to) {
#if HWY_TARGET == HWY_SCALAR
  for (size_t i = 0; i < count; ++i) {
    const float value = scale * static_cast<float>(q[i]);
    to[i] = has_min ? value - min : value;
  }
#else
  const hn::Rebind<int8_t, DI> d8;
  const VF scales = hn::Set(DF(), scale), mins = hn::Set(DF(), min);
  for (size_t i = 0; i < count; i += kVF) {
    const VF value = hn::Mul(scales, hn::ConvertTo(DF(), hn::PromoteTo(DI(), hn::LoadU(d8, q + i))));
    hn::StoreU(has_min ? hn::Sub(value, mins) : value, DF(), to + i);
  }
#endif
}

// The formula of IntBlock: d * scale, times q, less dmin * min. A panel has the rows of a block side by side,
// so all of them are taken while it is in the nearest cache.
void unpack_blocks(const Part& part) {
  const PackedMatrix& w = part.weights;
  const QuantType& type = quant_type(w.dtype());
  const size_t block_values = dtype_info(w.dtype()).block_values, group = type.group_values;
  const auto unpack = w.format()->unpack;
  IntBlock block;
  for (size_t begin = part.row_begin, end; begin < part.row_end; begin = end) {
    const std::byte* panel = w.panel(begin / kPanelRows);
    end = std::min(part.row_end, (begin / kPanelRows + 1) * kPanelRows);
    for (size_t col = part.col_begin; col < part.col_end; col += block_values)
      for (size_t row = begin; row < end; ++row) {
        unpack(panel, w.cols(), row % kPanelRows, col / block_values, &block);
        float* to = part.row(row) + (col - part.col_begin);
        for (size_t g = 0; g * group < block_values; ++g)
          ScaleGroup(block.q + g * group, group, block.d * static_cast<float>(block.scale[g]), type.has_min,
                     block.dmin * static_cast<float>(block.min[g]), to + g * group);
      }
  }
}

}  // namespace
}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
HWY_EXPORT(unpack_blocks);

// Float panels have columns one behind the other, 16 rows side by side in each.
template <typename Value, typename ToFloat>
void unpack_floats(const Part& part, ToFloat&& to_float) {
  for (size_t row = part.row_begin; row < part.row_end; ++row) {
    const std::byte* from = part.weights.panel(row / kPanelRows) + row % kPanelRows * sizeof(Value);
    float* to = part.row(row);
    for (size_t col = part.col_begin; col < part.col_end; ++col) {
      Value value;
      std::memcpy(&value, from + col * kPanelRows * sizeof(Value), sizeof(Value));
      *to++ = to_float(value);
    }
  }
}

// Types without panels keep the rows of the file.
void unpack_file_rows(const Part& part) {
  const PackedMatrix& w = part.weights;
  const DTypeInfo& info = dtype_info(w.dtype());
  const size_t row_bytes = w.panel_bytes() / kPanelRows;
  const size_t first = part.col_begin / info.block_values * info.block_bytes;
  for (size_t row = part.row_begin; row < part.row_end; ++row)
    to_float(w.dtype(), w.panel(0) + row * row_bytes + first, part.row(row), part.col_end - part.col_begin);
}

}  // namespace

void unpack_rows(const PackedMatrix& weights, size_t row_begin, size_t row_end, size_t col_begin,
                 size_t col_end, float* to, size_t stride) {
  const Part part{weights, row_begin, row_end, col_begin, col_end, to, stride};
  if (weights.format() == nullptr) return unpack_file_rows(part);
  switch (weights.dtype()) {
    case DType::kF32:
      return unpack_floats<float>(part, [](float value) { return value; });
    case DType::kF16:
      return unpack_floats<uint16_t>(part, [](uint16_t value) { return f16_to_f32(value); });
    case DType::kBF16:
      return unpack_floats<uint16_t>(part, [](uint16_t value) { return bf16_to_f32(value); });
    default:
      return HWY_DYNAMIC_DISPATCH(unpack_blocks)(part);
  }
}

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
