// Panels as the byte matrices that tiles multiply. Only for x86-64 sources.
//
// Types with 32-value blocks become one byte per weight. Types with 256-value blocks have integer scales
// inside a block; weight times scale needs up to 13 bits, so it is split: product = 128 * high + low, with
// low in 0 .. 127. Two byte products then give the exact sum of a whole block, with no work between its
// groups.
#pragma once
#include "kernels/amx/amx_tiles.h"
#include "kernels/tiles/panel_layout.h"

namespace butterfly::kernels::amx {

BF_AMX_INLINE __m512i load_chunk(const uint8_t* from) { return _mm512_loadu_si512(from); }
BF_AMX_INLINE __m512i low_nibbles(__m512i v) { return _mm512_and_si512(v, _mm512_set1_epi8(15)); }
BF_AMX_INLINE __m512i high_nibbles(__m512i v) { return low_nibbles(_mm512_srli_epi16(v, 4)); }

// Chunk `chunk` (0 to 7) of a sub-block of 32 four-bit values.
BF_AMX_INLINE __m512i nibbles(const uint8_t* sub, size_t chunk) {
  const __m512i both = load_chunk(sub + chunk / 2 * panel::kChunkBytes);
  return chunk % 2 == 0 ? low_nibbles(both) : high_nibbles(both);
}

// 32 columns of nibbles, less 8, as bytes.
BF_AMX_INLINE void unpack_nibbles_less_8(const uint8_t* sub, int8_t* to) {
  const __m512i offset = _mm512_set1_epi8(8);
  BF_UNROLL
  for (size_t i = 0; i < 4; ++i) {
    const __m512i both = load_chunk(sub + i * panel::kChunkBytes);
    _mm512_store_si512(to + i * 128, _mm512_sub_epi8(low_nibbles(both), offset));
    _mm512_store_si512(to + i * 128 + 64, _mm512_sub_epi8(high_nibbles(both), offset));
  }
}

// Chunk `chunk` (0 to 7) of a sub-block of 32 five-bit values.
BF_AMX_INLINE __m512i five_bits(const uint8_t* sub, size_t chunk) {
  const __m512i nibble = nibbles(sub, chunk);
  const __m512i bits = load_chunk(sub + panel::kNibbleSub);
  const __mmask64 set = _mm512_test_epi8_mask(bits, _mm512_set1_epi8(static_cast<char>(1u << chunk)));
  return _mm512_mask_add_epi8(nibble, set, nibble, _mm512_set1_epi8(16));
}

// 128 * high + low, byte by byte.
struct SplitProduct {
  __m512i low, high;
};
// weights (int8) times scale (int16, twice in each 32-bit lane).
BF_AMX_INLINE SplitProduct split_product(__m512i weights, __m512i scale) {
  const __m512i even = _mm512_mullo_epi16(_mm512_srai_epi16(_mm512_slli_epi16(weights, 8), 8), scale);
  const __m512i odd = _mm512_mullo_epi16(_mm512_srai_epi16(weights, 8), scale);
  // Bytes 0, 2, 4 ... of the first, the others of the second.
  constexpr int kSelect = 0xca;
  const __m512i even_bytes = _mm512_set1_epi16(255);
  const __m512i low = _mm512_ternarylogic_epi32(even_bytes, even, _mm512_slli_epi16(odd, 8), kSelect);
  const __m512i high =
      _mm512_ternarylogic_epi32(even_bytes, _mm512_srai_epi16(even, 7), _mm512_slli_epi16(odd, 1), kSelect);
  return {_mm512_and_si512(low, _mm512_set1_epi8(127)), high};
}

// Blocks [block_begin, block_end) of one panel of a 256-value type: `low` and `high` get 16 * 256 bytes each
// per block. A Type gives kSubBytes and kScaleBytes, chunk(sub-block, chunk): weights as signed bytes, and
// scales(scales, sub, to): those of the first and the second 16 columns, each twice in the lane of its row.
template <class Type>
BF_AMX void unpack_k(const uint8_t* quants, size_t cols, size_t block_begin, size_t block_end, int8_t* low,
                     int8_t* high) {
  const uint8_t* scales = quants + cols / 32 * Type::kSubBytes;
  for (size_t block = block_begin; block < block_end; ++block)
    for (size_t s = 0; s < 8; ++s) {
      const uint8_t* sub = quants + (block * 8 + s) * Type::kSubBytes;
      __m512i scale[2];
      Type::scales(scales + block * Type::kScaleBytes, s, scale);
      BF_UNROLL
      for (size_t chunk = 0; chunk < 8; ++chunk) {
        const SplitProduct p = split_product(Type::chunk(sub, chunk), scale[chunk / 4]);
        _mm512_store_si512(low + chunk * 64, p.low);
        _mm512_store_si512(high + chunk * 64, p.high);
      }
      low += 512;
      high += 512;
    }
}

// What Q4_K and Q5_K share of a Type for unpack_k(): one byte scale per 32 columns.
template <size_t kSub>
struct KMinScales {
  static constexpr size_t kSubBytes = kSub, kScaleBytes = panel::kKScales;
  BF_AMX_INLINE static void scales(const uint8_t* scale, size_t sub, __m512i to[2]) {
    const __m512i wide =
        _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(scale + sub * kPanelRows)));
    to[0] = to[1] = _mm512_or_si512(wide, _mm512_slli_epi32(wide, 16));
  }
};

}  // namespace butterfly::kernels::amx
