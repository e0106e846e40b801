// Packing whole panels by vectors. It is a transposition: four bytes of one row become one lane among 16.
// Blocks are read as 16 bytes of each row, transposed as 32-bit words in registers, and what is left are bit
// operations on words of all rows at once.
#if defined(BUTTERFLY_KERNELS_PACK_WORDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BUTTERFLY_KERNELS_PACK_WORDS_INL_H_
#undef BUTTERFLY_KERNELS_PACK_WORDS_INL_H_
#else
#define BUTTERFLY_KERNELS_PACK_WORDS_INL_H_
#endif

#include <cstring>

#include "kernels/panels/pack_table.h"
#include "kernels/simd/simd-inl.h"
#include "kernels/tiles/panel_layout.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

using VU = hn::Vec<DU>;

HWY_INLINE VU Bits(VU v, uint32_t mask) { return hn::And(v, hn::Set(DU(), mask)); }

// 16 bytes each of kVF / 4 rows, `step` bytes apart.
HWY_INLINE VU RowBlocks(const uint8_t* at, [[maybe_unused]] size_t step) {
  const hn::CappedTag<uint32_t, 4> d4;
  const auto load = [&](size_t i) HWY_ATTR {
    return hn::BitCast(d4, hn::LoadU(hn::CappedTag<uint8_t, 16>(), at + i * step));
  };
#if HWY_MAX_BYTES == 64
  const hn::Half<DU> d8;
  return hn::Combine(DU(), hn::Combine(d8, load(3), load(2)), hn::Combine(d8, load(1), load(0)));
#elif HWY_MAX_BYTES == 32
  return hn::Combine(DU(), load(1), load(0));
#else
  return load(0);
#endif
}

// Word j of the 16 bytes at `at` in row r goes to lane r of to[j], for kVF rows from `at` on.
struct Words {
  VU v[4];
  HWY_INLINE Words(const uint8_t* at, size_t row_bytes) {
    const hn::Repartition<uint64_t, DU> d64;
    const auto pairs = [&](VU a) HWY_ATTR { return hn::BitCast(d64, a); };
    // Rows i, i + 4, i + 8 ... side by side: each 16 bytes wide column of these is a 4 x 4 transposition.
    const VU r0 = RowBlocks(at, 4 * row_bytes), r1 = RowBlocks(at + row_bytes, 4 * row_bytes);
    const VU r2 = RowBlocks(at + 2 * row_bytes, 4 * row_bytes);
    const VU r3 = RowBlocks(at + 3 * row_bytes, 4 * row_bytes);
    const auto low01 = pairs(hn::InterleaveLower(DU(), r0, r1)),
               low23 = pairs(hn::InterleaveLower(DU(), r2, r3));
    const auto high01 = pairs(hn::InterleaveUpper(DU(), r0, r1)),
               high23 = pairs(hn::InterleaveUpper(DU(), r2, r3));
    v[0] = hn::BitCast(DU(), hn::InterleaveLower(d64, low01, low23));
    v[1] = hn::BitCast(DU(), hn::InterleaveUpper(d64, low01, low23));
    v[2] = hn::BitCast(DU(), hn::InterleaveLower(d64, high01, high23));
    v[3] = hn::BitCast(DU(), hn::InterleaveUpper(d64, high01, high23));
  }
};

HWY_INLINE void StoreWords(VU v, uint8_t* to) {
  hn::StoreU(hn::BitCast(hn::Repartition<uint8_t, DU>(), v), hn::Repartition<uint8_t, DU>(), to);
}
// The low 16 or 8 bits of each lane.
HWY_INLINE void StoreHalves(VU v, uint8_t* to) {
  const hn::Rebind<uint16_t, DU> d16;
  hn::StoreU(hn::TruncateTo(d16, v), d16, reinterpret_cast<uint16_t*>(to));
}
HWY_INLINE void StoreBytes(VU v, uint8_t* to) {
  const hn::Rebind<uint8_t, DU> d8;
  // Not TruncateTo: Highway 1.0.3 takes the wrong bytes on AVX3_DL.
  hn::StoreU(hn::DemoteTo(d8, hn::BitCast(DI(), Bits(v, 0xff))), d8, to);
}

// Four bytes of each lane to four rows of bytes; two halves to two rows of halves.
HWY_INLINE void StoreFourRows(VU v, uint8_t* to) {
  StoreBytes(v, to);
  StoreBytes(hn::ShiftRight<8>(v), to + kPanelRows);
  StoreBytes(hn::ShiftRight<16>(v), to + 2 * kPanelRows);
  StoreBytes(hn::ShiftRight<24>(v), to + 3 * kPanelRows);
}
HWY_INLINE void StoreTwoRows(VU v, uint8_t* to) {
  StoreHalves(v, to);
  StoreHalves(hn::ShiftRight<16>(v), to + 2 * kPanelRows);
}

// Two words of four values as one word of a nibble plane: from the low or the high half of each byte.
HWY_INLINE VU LowNibbleWords(VU first, VU second) {
  return hn::Or(Bits(first, 0x0f0f0f0fu), hn::ShiftLeft<4>(Bits(second, 0x0f0f0f0fu)));
}
HWY_INLINE VU HighNibbleWords(VU first, VU second) {
  return hn::Or(Bits(hn::ShiftRight<4>(first), 0x0f0f0f0fu), Bits(second, 0xf0f0f0f0u));
}

// Calls fn(first row of a vector, block index, its bytes in that row), and prefetches the rows of the next
// panel meanwhile: rows follow one another in the file, but a panel reads 16 of them at once.
template <typename F>
HWY_INLINE void EachBlock(const FullPanel& p, size_t block_bytes, F&& fn) {
  const auto* from = reinterpret_cast<const uint8_t*>(p.rows);
  const uint8_t* next = from + kPanelRows * p.row_bytes;
  for (size_t at = 0; at + block_bytes <= p.row_bytes; at += block_bytes) {
    for (size_t line = 0; line < kPanelRows * block_bytes; line += 64)
      __builtin_prefetch(next + kPanelRows * at + line, 0, 2);
    for (size_t row = 0; row < kPanelRows; row += kVF)
      fn(row, at / block_bytes, from + row * p.row_bytes + at);
  }
}
// Two bytes at `at` of each of kVF rows, side by side.
HWY_INLINE void CopyHalves(const uint8_t* at, size_t row_bytes, uint8_t* to) {
  BF_UNROLL
  for (size_t r = 0; r < kVF; ++r) std::memcpy(to + 2 * r, at + r * row_bytes, 2);
}

// 32 bytes of each row: 64 values, the low halves first.
struct NibblePlanes {
  Words first, second;
  HWY_INLINE NibblePlanes(const uint8_t* at, size_t row_bytes)
      : first(at, row_bytes), second(at + 16, row_bytes) {}
  HWY_INLINE void StoreLow(uint8_t* to) const {
    StoreWords(LowNibbleWords(first.v[0], first.v[1]), to);
    StoreWords(LowNibbleWords(first.v[2], first.v[3]), to + panel::kChunkBytes);
    StoreWords(LowNibbleWords(second.v[0], second.v[1]), to + 2 * panel::kChunkBytes);
    StoreWords(LowNibbleWords(second.v[2], second.v[3]), to + 3 * panel::kChunkBytes);
  }
  HWY_INLINE void StoreHigh(uint8_t* to) const {
    StoreWords(HighNibbleWords(first.v[0], first.v[1]), to);
    StoreWords(HighNibbleWords(first.v[2], first.v[3]), to + panel::kChunkBytes);
    StoreWords(HighNibbleWords(second.v[0], second.v[1]), to + 2 * panel::kChunkBytes);
    StoreWords(HighNibbleWords(second.v[2], second.v[3]), to + 3 * panel::kChunkBytes);
  }
};

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
