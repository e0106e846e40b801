// Tile products of types with 256-value blocks, for many rows: weight times scale split in two bytes. Only
// for x86-64 sources.
#pragma once
#include "kernels/amx/amx_side.h"
#include "kernels/amx/amx_unpack.h"

namespace butterfly::kernels::amx {

// A 256-value type whose panels tiles multiply.
struct KType {
  // unpack_k<>() for this type.
  void (*unpack)(const uint8_t* quants, size_t cols, size_t block_begin, size_t block_end, int8_t* low,
                 int8_t* high);
  size_t sub_bytes;    // of 32 columns of quants
  size_t scale_bytes;  // of 256 columns of scales
  size_t d_offset;     // of f16 d[16] among them
  bool has_min;        // minimums as in panel_layout.h, and dmin[16] behind d
};

// For a Type of unpack_k() with the scales and minimums of Q4_K and Q5_K.
template <class Type>
constexpr KType k_min_type() {
  return {unpack_k<Type>, Type::kSubBytes, Type::kScaleBytes, panel::kKDOffset, true};
}

// The job of PackFormat::matmul. Scratch belongs to the calling thread and is kept.
void matmul_k(const MatmulJob& job, const KType& type);

}  // namespace butterfly::kernels::amx
