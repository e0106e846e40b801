#include <cstring>
#include <iterator>

#include "base/check.h"
#include "base/error.h"
#include "kernels/quant/iq1_m.h"
#include "kernels/quant/iq1_s.h"
#include "kernels/quant/iq2_s.h"
#include "kernels/quant/iq2_xs.h"
#include "kernels/quant/iq2_xxs.h"
#include "kernels/quant/iq3_s.h"
#include "kernels/quant/iq3_xxs.h"
#include "kernels/quant/iq4_nl.h"
#include "kernels/quant/iq4_xs.h"
#include "kernels/quant/mxfp4.h"
#include "kernels/quant/q1_0.h"
#include "kernels/quant/q2_0.h"
#include "kernels/quant/q2_k.h"
#include "kernels/quant/q3_k.h"
#include "kernels/quant/q4_0.h"
#include "kernels/quant/q4_1.h"
#include "kernels/quant/q4_k.h"
#include "kernels/quant/q5_0.h"
#include "kernels/quant/q5_1.h"
#include "kernels/quant/q5_k.h"
#include "kernels/quant/q6_k.h"
#include "kernels/quant/q8_0.h"
#include "kernels/quant/quant.h"
#include "kernels/quant/tq1_0.h"
#include "kernels/quant/tq2_0.h"
#include "kernels/simd/half.h"

namespace butterfly::kernels {
namespace {

// In the order of the DType enum.
constexpr QuantType kTypes[] = {
    {DType::kQ4_0, 32, false, q4_0_dequantize, q4_0_quantize, q4_0_unpack},
    {DType::kQ4_1, 32, true, q4_1_dequantize, q4_1_quantize, q4_1_unpack},
    {DType::kQ5_0, 32, false, q5_0_dequantize, q5_0_quantize, q5_0_unpack},
    {DType::kQ5_1, 32, true, q5_1_dequantize, q5_1_quantize, q5_1_unpack},
    {DType::kQ8_0, 32, false, q8_0_dequantize, q8_0_quantize, q8_0_unpack},
    {DType::kQ2_K, 16, true, q2_k_dequantize, q2_k_quantize, q2_k_unpack},
    {DType::kQ3_K, 16, false, q3_k_dequantize, q3_k_quantize, q3_k_unpack},
    {DType::kQ4_K, 32, true, q4_k_dequantize, q4_k_quantize, q4_k_unpack},
    {DType::kQ5_K, 32, true, q5_k_dequantize, q5_k_quantize, q5_k_unpack},
    {DType::kQ6_K, 16, false, q6_k_dequantize, q6_k_quantize, q6_k_unpack},
    {DType::kIQ4_NL, 32, false, iq4_nl_dequantize, nullptr, iq4_nl_unpack},
    {DType::kIQ4_XS, 32, false, iq4_xs_dequantize, nullptr, iq4_xs_unpack},
    {DType::kMXFP4, 32, false, mxfp4_dequantize, mxfp4_quantize, mxfp4_unpack},
    {DType::kQ1_0, 32, false, q1_0_dequantize, q1_0_quantize, q1_0_unpack},
    {DType::kQ2_0, 32, false, q2_0_dequantize, nullptr, q2_0_unpack},
    {DType::kTQ1_0, 32, false, tq1_0_dequantize, nullptr, tq1_0_unpack},
    {DType::kTQ2_0, 32, false, tq2_0_dequantize, nullptr, tq2_0_unpack},
    {DType::kIQ2_XXS, 32, false, iq2_xxs_dequantize, nullptr, iq2_xxs_unpack},
    {DType::kIQ2_XS, 16, false, iq2_xs_dequantize, nullptr, iq2_xs_unpack},
    {DType::kIQ2_S, 16, false, iq2_s_dequantize, nullptr, iq2_s_unpack},
    {DType::kIQ3_XXS, 32, false, iq3_xxs_dequantize, nullptr, iq3_xxs_unpack},
    {DType::kIQ3_S, 32, false, iq3_s_dequantize, nullptr, iq3_s_unpack},
    {DType::kIQ1_S, 32, false, iq1_s_dequantize, nullptr, iq1_s_unpack},
    {DType::kIQ1_M, 16, false, iq1_m_dequantize, nullptr, iq1_m_unpack},
};

const QuantType* find(DType dtype) {
  for (const QuantType& row : kTypes)
    if (row.dtype == dtype) return &row;
  return nullptr;
}

template <float (*widen)(uint16_t)>
void widen_row(const std::byte* from, float* to, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    uint16_t half;
    std::memcpy(&half, from + 2 * i, sizeof half);
    to[i] = widen(half);
  }
}

template <uint16_t (*narrow)(float)>
void narrow_row(const float* from, std::byte* to, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const uint16_t half = narrow(from[i]);
    std::memcpy(to + 2 * i, &half, sizeof half);
  }
}

void check_whole_blocks(DType dtype, size_t count, const char* function) {
  const DTypeInfo& info = dtype_info(dtype);
  BF_CHECK(count % info.block_values == 0) << "[" << function << "] " << count << " values of " << info.name
                                           << ", whose blocks hold " << info.block_values;
}

}  // namespace

std::span<const QuantType> quant_table() { return kTypes; }

const QuantType& quant_type(DType dtype) {
  const QuantType* row = find(dtype);
  BF_CHECK(row != nullptr) << "[quant_type] " << dtype_name(dtype) << " is not a quantised type";
  return *row;
}

void to_float(DType dtype, const std::byte* from, float* to, size_t count) {
  check_whole_blocks(dtype, count, "to_float");
  if (count == 0) return;
  switch (dtype) {
    case DType::kF32:
      std::memcpy(to, from, count * sizeof(float));
      return;
    case DType::kF16:
      widen_row<f16_to_f32>(from, to, count);
      return;
    case DType::kBF16:
      widen_row<bf16_to_f32>(from, to, count);
      return;
    default:
      break;
  }
  const QuantType* row = find(dtype);
  if (row == nullptr)
    fail(Errc::kUnsupported, "[to_float] {} values are not read as floats", dtype_name(dtype));
  row->dequantize(from, to, count);
}

bool can_quantize(DType dtype) {
  if (dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16) return true;
  const QuantType* row = find(dtype);
  return row != nullptr && row->quantize != nullptr;
}

void from_float(DType dtype, const float* from, std::byte* to, size_t count) {
  check_whole_blocks(dtype, count, "from_float");
  if (!can_quantize(dtype))
    fail(Errc::kUnsupported, "[from_float] {} cannot be written, only read", dtype_name(dtype));
  if (count == 0) return;
  switch (dtype) {
    case DType::kF32:
      std::memcpy(to, from, count * sizeof(float));
      return;
    case DType::kF16:
      narrow_row<f32_to_f16>(from, to, count);
      return;
    case DType::kBF16:
      narrow_row<f32_to_bf16>(from, to, count);
      return;
    default:
      find(dtype)->quantize(from, to, count);
  }
}

}  // namespace butterfly::kernels
