// Quantised rows: GGUF's block formats as floats and as exact integers. One type per file pair, one row each
// in quant_table.cc.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace butterfly::kernels {

// One block as exact integers. Value i is d * scale[g] * q[i] - dmin * min[g] with g = i / group_values.
//
// Every quantised type has this form; matrix products are defined over it (see matmul.h), whatever layout a
// fast path uses.
struct IntBlock {
  int8_t q[256];
  int16_t scale[16];  // 1 for types of one group
  int16_t min[16];    // 0 where the type has no minimum; Q4_1 and Q5_1 use min = 1 with dmin = -m
  float d;
  float dmin;
};

// One block type of GGUF. Functions keep no state: any number of threads may call them.
struct QuantType {
  DType dtype;
  uint32_t group_values;  // values that share scale[g] and min[g]: 16 or 32
  bool has_min;

  // Exactly ggml's values. `count` is a multiple of the block.
  void (*dequantize)(const std::byte* from, float* to, size_t count);
  // Null for types that cannot be written.
  void (*quantize)(const float* from, std::byte* to, size_t count);
  // One block as integers.
  void (*unpack)(const std::byte* block, IntBlock* to);
};

std::span<const QuantType> quant_table();
// BF_CHECKs that the type is quantised.
const QuantType& quant_type(DType dtype);

// Any element type (F32, F16, BF16 and the quantised ones) to and from float. `count` is a multiple of the
// block.
void to_float(DType dtype, const std::byte* from, float* to, size_t count);
bool can_quantize(DType dtype);
void from_float(DType dtype, const float* from, std::byte* to, size_t count);

}  // namespace butterfly::kernels
