// Loops over blocks that every quantised type shares: a type gives its layout, unpack and pack; the rest
// follows.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/quant/quant.h"

namespace butterfly::kernels {

// Rows of a file may start at any byte, so blocks are copied out and in, never pointed at.
template <typename Block>
Block load_block(const std::byte* from) {
  Block block;
  std::memcpy(&block, from, sizeof block);
  return block;
}

// The definition of a quantised value, in ggml's order of float operations: one rounding per product, one for
// the difference. (d * scale and dmin * min are exact: 11 bits times at most 8.)
template <size_t kBlockValues, size_t kGroupValues, bool kHasMin>
void int_block_to_float(const IntBlock& block, float* to) {
  for (size_t g = 0; g < kBlockValues / kGroupValues; ++g) {
    const float scale = block.d * static_cast<float>(block.scale[g]);
    const float min = kHasMin ? block.dmin * static_cast<float>(block.min[g]) : 0.0f;
    for (size_t i = g * kGroupValues; i < (g + 1) * kGroupValues; ++i) {
      const float product = scale * static_cast<float>(block.q[i]);
      to[i] = kHasMin ? product - min : product;
    }
  }
}

template <typename Block, size_t kBlockValues, size_t kGroupValues, bool kHasMin,
          void (*unpack)(const std::byte*, IntBlock*)>
void dequantize_blocks(const std::byte* from, float* to, size_t count) {
  IntBlock block;
  for (size_t i = 0; i < count; i += kBlockValues, from += sizeof(Block)) {
    unpack(from, &block);
    int_block_to_float<kBlockValues, kGroupValues, kHasMin>(block, to + i);
  }
}

// `fit` chooses the integers of one block, `pack` writes them in the type's layout.
template <typename Block, size_t kBlockValues, void (*fit)(const float*, IntBlock*),
          Block (*pack)(const IntBlock&)>
void quantize_blocks(const float* from, std::byte* to, size_t count) {
  IntBlock block;
  for (size_t i = 0; i < count; i += kBlockValues, to += sizeof(Block)) {
    fit(from + i, &block);
    const Block packed = pack(block);
    std::memcpy(to, &packed, sizeof packed);
  }
}

}  // namespace butterfly::kernels
