// Packing is a transposition: four bytes of one row become one lane among 16. Blocks are read as 16 bytes of
// each row, transposed as 32-bit words in registers, and what is left are bit operations on words of all rows
// at once.
#include "kernels/panels/pack_full.h"

#include <cstring>

#include "kernels/panels/pack.h"
#include "kernels/quant/iq4_nl.h"
#include "kernels/quant/q4_0.h"
#include "kernels/quant/q4_1.h"
#include "kernels/quant/q4_k.h"
#include "kernels/quant/q5_0.h"
#include "kernels/quant/q5_1.h"
#include "kernels/quant/q5_k.h"
#include "kernels/quant/q6_k.h"
#include "kernels/quant/q8_0.h"
#include "kernels/tiles/panel_layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/panels/pack_full.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
// The plain packers.
void full_f32(const FullPanel& p) { pack_f32(p.rows, p.row_bytes, kPanelRows, p.cols, p.to); }
void full_half(const FullPanel& p) { pack_half(p.rows, p.row_bytes, kPanelRows, p.cols, p.to); }
void full_q8_0(const FullPanel& p) { pack_q8_0(p.rows, p.row_bytes, kPanelRows, p.cols, p.to); }
void full_q4_0(const FullPanel& p) { pack_q4_0(p.rows, p.row_bytes, kPanelRows, p.cols, p.to); }
void full_q4_1(const FullPanel& p) { pack_q4_1(p.rows, p.row_bytes, kPanelRows, p.cols, p.to); }
void full_q5_0(const FullPanel& p) { pack_q5_0(p.rows, p.row_bytes, kPanelRows, p.cols, p.to); }
void full_q5_1(const FullPanel& p) { pack_q5_1(p.rows, p.row_bytes, kPanelRows, p.cols, p.to); }
void full_iq4_nl(const FullPanel& p) { pack_iq4_nl(p.rows, p.row_bytes, kPanelRows, p.cols, p.to); }
void full_q4_k(const FullPanel& p) { pack_q4_k(p.rows, p.row_bytes, kPanelRows, p.cols, p.to); }
void full_q5_k(const FullPanel& p) { pack_q5_k(p.rows, p.row_bytes, kPanelRows, p.cols, p.to); }
void full_q6_k(const FullPanel& p) { pack_q6_k(p.rows, p.row_bytes, kPanelRows, p.cols, p.to); }
#else

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
HWY_INLINE VU LowNibbles(VU first, VU second) {
  return hn::Or(Bits(first, 0x0f0f0f0fu), hn::ShiftLeft<4>(Bits(second, 0x0f0f0f0fu)));
}
HWY_INLINE VU HighNibbles(VU first, VU second) {
  return hn::Or(Bits(hn::ShiftRight<4>(first), 0x0f0f0f0fu), Bits(second, 0xf0f0f0f0u));
}

// Calls fn(first row of a vector, block index, its bytes in that row), and asks for the rows of the next
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
// The columns behind the last whole block of 16 bytes, value by value.
HWY_INLINE void LastColumns(const FullPanel& p, size_t value_bytes) {
  const size_t per_block = 16 / value_bytes;
  for (size_t k = p.cols / per_block * per_block; k < p.cols; ++k)
    for (size_t row = 0; row < kPanelRows; ++row)
      std::memcpy(p.to + (k * kPanelRows + row) * value_bytes, p.rows + row * p.row_bytes + k * value_bytes,
                  value_bytes);
}

HWY_INLINE void FullFloats(const FullPanel& p) {
  auto* to = reinterpret_cast<uint8_t*>(p.to);
  EachBlock(p, 16, [&](size_t row, size_t b, const uint8_t* at) HWY_ATTR {
    const Words words(at, p.row_bytes);
    BF_UNROLL
    for (size_t j = 0; j < 4; ++j) StoreWords(words.v[j], to + ((4 * b + j) * kPanelRows + row) * 4);
  });
  LastColumns(p, 4);
}

HWY_INLINE void FullHalves(const FullPanel& p) {
  auto* to = reinterpret_cast<uint8_t*>(p.to);
  EachBlock(p, 16, [&](size_t row, size_t b, const uint8_t* at) HWY_ATTR {
    const Words words(at, p.row_bytes);
    BF_UNROLL
    for (size_t j = 0; j < 4; ++j) StoreTwoRows(words.v[j], to + ((8 * b + 2 * j) * kPanelRows + row) * 2);
  });
  LastColumns(p, 2);
}

// Two bytes at `at` of each of kVF rows, side by side.
HWY_INLINE void CopyHalves(const uint8_t* at, size_t row_bytes, uint8_t* to) {
  BF_UNROLL
  for (size_t r = 0; r < kVF; ++r) std::memcpy(to + 2 * r, at + r * row_bytes, 2);
}

// Bit 4c + j of each word moved to bit 8j + c: the fifth bits of eight chunks.
HWY_INLINE VU SpreadFifthBits(VU word) {
  VU spread = hn::Zero(DU());
  BF_UNROLL
  for (size_t c = 0; c < 8; ++c) {  // chunk 7 first, each moves those before it up
    const VU nibble = hn::ShiftRight<28>(word);
    // Bit j times 2^(7j) is bit 8j; the other products fall between.
    const VU bytes = Bits(hn::Mul(nibble, hn::Set(DU(), 0x00204081u)), 0x01010101u);
    spread = hn::Or(hn::Add(spread, spread), bytes);
    word = hn::ShiftLeft<4>(word);
  }
  return spread;
}

template <class Block>
HWY_INLINE void FullQ32(const FullPanel& p) {
  constexpr bool kMin = requires(Block b) { b.m; };
  constexpr bool kFifth = requires(Block b) { b.qh; };
  constexpr bool kBytes = sizeof(Block::qs) == 32;
  constexpr size_t kSub = kBytes ? panel::kByteSub : kFifth ? panel::kFiveBitSub : panel::kNibbleSub;
  constexpr size_t kScaleBytes = (kMin ? 2 : 1) * panel::kScaleRow;
  auto* quants = reinterpret_cast<uint8_t*>(p.to);
  uint8_t* scales = quants + panel::q32_scales(p.cols, kSub);
  EachBlock(p, sizeof(Block), [&](size_t row, size_t b, const uint8_t* at) HWY_ATTR {
    uint8_t* sub = quants + b * kSub + row * 4;
    const Words w(at + offsetof(Block, qs), p.row_bytes);
    if constexpr (kBytes) {
      const Words more(at + offsetof(Block, qs) + 16, p.row_bytes);
      BF_UNROLL
      for (size_t j = 0; j < 4; ++j) {
        StoreWords(w.v[j], sub + j * panel::kChunkBytes);
        StoreWords(more.v[j], sub + (4 + j) * panel::kChunkBytes);
      }
    } else {
      StoreWords(LowNibbles(w.v[0], w.v[1]), sub);
      StoreWords(LowNibbles(w.v[2], w.v[3]), sub + panel::kChunkBytes);
      StoreWords(HighNibbles(w.v[0], w.v[1]), sub + 2 * panel::kChunkBytes);
      StoreWords(HighNibbles(w.v[2], w.v[3]), sub + 3 * panel::kChunkBytes);
    }
    if constexpr (kFifth) {
      alignas(64) uint32_t words[kVF];
      BF_UNROLL
      for (size_t r = 0; r < kVF; ++r) std::memcpy(words + r, at + r * p.row_bytes + offsetof(Block, qh), 4);
      StoreWords(SpreadFifthBits(hn::Load(DU(), words)), sub + panel::kNibbleSub);
    }
    CopyHalves(at, p.row_bytes, scales + b * kScaleBytes + 2 * row);
    if constexpr (kMin)
      CopyHalves(at + 2, p.row_bytes, scales + b * kScaleBytes + panel::kScaleRow + 2 * row);
  });
}

// 32 bytes of each row: 64 values, the low halves first.
struct NibblePlanes {
  Words first, second;
  HWY_INLINE NibblePlanes(const uint8_t* at, size_t row_bytes)
      : first(at, row_bytes), second(at + 16, row_bytes) {}
  HWY_INLINE void StoreLow(uint8_t* to) const {
    StoreWords(LowNibbles(first.v[0], first.v[1]), to);
    StoreWords(LowNibbles(first.v[2], first.v[3]), to + panel::kChunkBytes);
    StoreWords(LowNibbles(second.v[0], second.v[1]), to + 2 * panel::kChunkBytes);
    StoreWords(LowNibbles(second.v[2], second.v[3]), to + 3 * panel::kChunkBytes);
  }
  HWY_INLINE void StoreHigh(uint8_t* to) const {
    StoreWords(HighNibbles(first.v[0], first.v[1]), to);
    StoreWords(HighNibbles(first.v[2], first.v[3]), to + panel::kChunkBytes);
    StoreWords(HighNibbles(second.v[0], second.v[1]), to + 2 * panel::kChunkBytes);
    StoreWords(HighNibbles(second.v[2], second.v[3]), to + 3 * panel::kChunkBytes);
  }
};

// Q4_K and Q5_K.
template <class Block, size_t kSub>
HWY_INLINE void FullK(const FullPanel& p) {
  constexpr bool kFifth = requires(Block b) { b.qh; };
  static_assert(offsetof(Block, d) == 0 && offsetof(Block, dmin) == 2 && offsetof(Block, scales) == 4);
  auto* quants = reinterpret_cast<uint8_t*>(p.to);
  uint8_t* scales = quants + p.cols / 32 * kSub;
  EachBlock(p, sizeof(Block), [&](size_t row, size_t b, const uint8_t* at) HWY_ATTR {
    uint8_t* subs = quants + b * 8 * kSub + row * 4;
    for (size_t pair = 0; pair < 4; ++pair) {
      const NibblePlanes planes(at + offsetof(Block, qs) + pair * 32, p.row_bytes);
      planes.StoreLow(subs + 2 * pair * kSub);
      planes.StoreHigh(subs + (2 * pair + 1) * kSub);
    }
    if constexpr (kFifth) {
      Words low(at + offsetof(Block, qh), p.row_bytes), high(at + offsetof(Block, qh) + 16, p.row_bytes);
      for (size_t s = 0; s < 8; ++s) {
        VU fifth = hn::Zero(DU());
        BF_UNROLL
        for (size_t c = 0; c < 8; ++c) {  // chunk 7 first, each moves those before it up
          VU& word = c < 4 ? high.v[3 - c] : low.v[7 - c];
          fifth = hn::Or(hn::Add(fifth, fifth), Bits(word, 0x01010101u));
          word = hn::ShiftRight<1>(word);
        }
        StoreWords(fifth, subs + s * kSub + panel::kNibbleSub);
      }
    }
    // d and dmin, then twelve bytes of six-bit scales and minimums (quant/six_bit_scales.h).
    const Words head(at, p.row_bytes);
    const VU upper_scales = Bits(hn::ShiftRight<2>(head.v[1]), 0x30303030u);
    const VU upper_mins = Bits(hn::ShiftRight<2>(head.v[2]), 0x30303030u);
    uint8_t* scale = scales + b * panel::kKScales + row;
    StoreFourRows(Bits(head.v[1], 0x3f3f3f3fu), scale);
    StoreFourRows(hn::Or(Bits(head.v[3], 0x0f0f0f0fu), upper_scales), scale + 4 * kPanelRows);
    uint8_t* mins = scale + panel::kKMinsOffset + row;
    StoreTwoRows(Bits(head.v[2], 0x3f3f3f3fu), mins);
    StoreTwoRows(hn::Or(Bits(hn::ShiftRight<4>(head.v[3]), 0x0f0f0f0fu), upper_mins), mins + 4 * kPanelRows);
    StoreTwoRows(head.v[0], scale + panel::kKDOffset + row);
  });
}

HWY_INLINE void FullQ6K(const FullPanel& p) {
  auto* quants = reinterpret_cast<uint8_t*>(p.to);
  uint8_t* scales = quants + p.cols / 32 * panel::kQ6KSub;
  EachBlock(p, sizeof(BlockQ6_K), [&](size_t row, size_t b, const uint8_t* at) HWY_ATTR {
    for (size_t half = 0; half < 2; ++half) {  // 128 values each
      uint8_t* subs = quants + (b * 8 + half * 4) * panel::kQ6KSub + row * 4;
      for (size_t i = 0; i < 2; ++i) {
        const NibblePlanes planes(at + offsetof(BlockQ6_K, ql) + half * 64 + i * 32, p.row_bytes);
        planes.StoreLow(subs + i * panel::kQ6KSub);
        planes.StoreHigh(subs + (i + 2) * panel::kQ6KSub);
      }
      for (size_t plane = 0; plane < 2; ++plane) {
        Words w(at + offsetof(BlockQ6_K, qh) + half * 32 + plane * 16, p.row_bytes);
        for (size_t quarter = 0; quarter < 4; ++quarter) {
          VU upper = hn::Zero(DU());
          BF_UNROLL
          for (size_t i = 0; i < 4; ++i) {  // word 3 first, each moves those before it up
            upper = hn::Or(hn::ShiftLeft<2>(upper), Bits(w.v[3 - i], 0x03030303u));
            w.v[3 - i] = hn::ShiftRight<2>(w.v[3 - i]);
          }
          StoreWords(upper, subs + quarter * panel::kQ6KSub + panel::kNibbleSub + plane * panel::kChunkBytes);
        }
      }
    }
    const Words groups(at + offsetof(BlockQ6_K, scales), p.row_bytes);
    uint8_t* scale = scales + b * panel::kQ6KScales + 2 * row;
    BF_UNROLL
    for (size_t j = 0; j < 4; ++j) StoreTwoRows(groups.v[j], scale + j * 4 * kPanelRows);
    CopyHalves(at + offsetof(BlockQ6_K, d), p.row_bytes, scale + panel::kQ6KDOffset);
  });
}

HWY_NOINLINE void full_f32(const FullPanel& p) { FullFloats(p); }
HWY_NOINLINE void full_half(const FullPanel& p) { FullHalves(p); }
HWY_NOINLINE void full_q8_0(const FullPanel& p) { FullQ32<BlockQ8_0>(p); }
HWY_NOINLINE void full_q4_0(const FullPanel& p) { FullQ32<BlockQ4_0>(p); }
HWY_NOINLINE void full_q4_1(const FullPanel& p) { FullQ32<BlockQ4_1>(p); }
HWY_NOINLINE void full_q5_0(const FullPanel& p) { FullQ32<BlockQ5_0>(p); }
HWY_NOINLINE void full_q5_1(const FullPanel& p) { FullQ32<BlockQ5_1>(p); }
HWY_NOINLINE void full_iq4_nl(const FullPanel& p) { FullQ32<BlockIQ4_NL>(p); }
HWY_NOINLINE void full_q4_k(const FullPanel& p) { FullK<BlockQ4_K, panel::kQ4KSub>(p); }
HWY_NOINLINE void full_q5_k(const FullPanel& p) { FullK<BlockQ5_K, panel::kQ5KSub>(p); }
HWY_NOINLINE void full_q6_k(const FullPanel& p) { FullQ6K(p); }
#endif

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
HWY_EXPORT(full_f32);
HWY_EXPORT(full_half);
HWY_EXPORT(full_q8_0);
HWY_EXPORT(full_q4_0);
HWY_EXPORT(full_q4_1);
HWY_EXPORT(full_q5_0);
HWY_EXPORT(full_q5_1);
HWY_EXPORT(full_iq4_nl);
HWY_EXPORT(full_q4_k);
HWY_EXPORT(full_q5_k);
HWY_EXPORT(full_q6_k);
void pack_full_f32(const FullPanel& p) { HWY_DYNAMIC_DISPATCH(full_f32)(p); }
void pack_full_half(const FullPanel& p) { HWY_DYNAMIC_DISPATCH(full_half)(p); }
void pack_full_q8_0(const FullPanel& p) { HWY_DYNAMIC_DISPATCH(full_q8_0)(p); }
void pack_full_q4_0(const FullPanel& p) { HWY_DYNAMIC_DISPATCH(full_q4_0)(p); }
void pack_full_q4_1(const FullPanel& p) { HWY_DYNAMIC_DISPATCH(full_q4_1)(p); }
void pack_full_q5_0(const FullPanel& p) { HWY_DYNAMIC_DISPATCH(full_q5_0)(p); }
void pack_full_q5_1(const FullPanel& p) { HWY_DYNAMIC_DISPATCH(full_q5_1)(p); }
void pack_full_iq4_nl(const FullPanel& p) { HWY_DYNAMIC_DISPATCH(full_iq4_nl)(p); }
void pack_full_q4_k(const FullPanel& p) { HWY_DYNAMIC_DISPATCH(full_q4_k)(p); }
void pack_full_q5_k(const FullPanel& p) { HWY_DYNAMIC_DISPATCH(full_q5_k)(p); }
void pack_full_q6_k(const FullPanel& p) { HWY_DYNAMIC_DISPATCH(full_q6_k)(p); }
}  // namespace butterfly::kernels
#endif  // HWY_ONCE
