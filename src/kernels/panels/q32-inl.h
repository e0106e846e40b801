// Fast packing and products of types with 32-value blocks, for a Type of q32.h.
#if defined(BUTTERFLY_KERNELS_Q32_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BUTTERFLY_KERNELS_Q32_INL_H_
#undef BUTTERFLY_KERNELS_Q32_INL_H_
#else
#define BUTTERFLY_KERNELS_Q32_INL_H_
#endif

#include "kernels/panels/pack_words-inl.h"
#include "kernels/panels/q32.h"
#include "kernels/tiles/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

template <class Type>
void PackFullQ32(const FullPanel& p) {
  Type::pack(p.rows, p.row_bytes, kPanelRows, p.cols, p.to);
}
template <class Type>
void MatmulUnsigned(const MatmulJob& job) {
  ref::matmul_panels(Type::kType, job);
}

#else

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

// See PackFormat::pack_full.
template <class Type>
HWY_INLINE void PackFullQ32(const FullPanel& p) {
  using Block = typename Type::Block;
  constexpr size_t kSub = Type::kSubBytes, kScaleBytes = Type::kScaleBytes;
  auto* quants = reinterpret_cast<uint8_t*>(p.to);
  uint8_t* scales = quants + panel::q32_scales(p.cols, kSub);
  EachBlock(p, sizeof(Block), [&](size_t row, size_t b, const uint8_t* at) HWY_ATTR {
    uint8_t* sub = quants + b * kSub + row * 4;
    const Words w(at + offsetof(Block, qs), p.row_bytes);
    if constexpr (Type::kBytes) {
      const Words more(at + offsetof(Block, qs) + 16, p.row_bytes);
      BF_UNROLL
      for (size_t j = 0; j < 4; ++j) {
        StoreWords(w.v[j], sub + j * panel::kChunkBytes);
        StoreWords(more.v[j], sub + (4 + j) * panel::kChunkBytes);
      }
    } else {
      StoreWords(LowNibbleWords(w.v[0], w.v[1]), sub);
      StoreWords(LowNibbleWords(w.v[2], w.v[3]), sub + panel::kChunkBytes);
      StoreWords(HighNibbleWords(w.v[0], w.v[1]), sub + 2 * panel::kChunkBytes);
      StoreWords(HighNibbleWords(w.v[2], w.v[3]), sub + 3 * panel::kChunkBytes);
    }
    if constexpr (Type::kFifth) {
      alignas(64) uint32_t words[kVF];
      BF_UNROLL
      for (size_t r = 0; r < kVF; ++r) std::memcpy(words + r, at + r * p.row_bytes + offsetof(Block, qh), 4);
      StoreWords(SpreadFifthBits(hn::Load(DU(), words)), sub + panel::kNibbleSub);
    }
    if constexpr (Type::kPower) {
      BF_UNROLL
      for (size_t r = 0; r < kVF; ++r) scales[b * kScaleBytes + row + r] = at[r * p.row_bytes];
    } else {
      CopyHalves(at, p.row_bytes, scales + b * kScaleBytes + 2 * row);
    }
    if constexpr (Type::kMin)
      CopyHalves(at + 2, p.row_bytes, scales + b * kScaleBytes + panel::kScaleRow + 2 * row);
  });
}

// Scales of kVF rows from `lane` on, of the first row of scales or of the row of minimums behind it.
template <class Type>
HWY_INLINE VF LoadScales(const uint8_t* row, size_t lane) {
  if constexpr (!Type::kPower) {
    return LoadF16(reinterpret_cast<const uint16_t*>(row) + lane);
  } else {  // mxfp4_scale(): what would be exponents 0 and -1 are subnormals
    const hn::Rebind<uint8_t, DU> d8;
    const VI e = hn::BitCast(DI(), hn::PromoteTo(DU(), hn::LoadU(d8, row + lane)));
    const VI one = hn::Set(DI(), 1);
    const VI normal = hn::ShiftLeft<23>(hn::Sub(e, one)), subnormal = hn::ShiftLeft<21>(hn::Add(e, one));
    return hn::BitCast(DF(), hn::IfThenElse(hn::Gt(e, one), normal, subnormal));
  }
}

// Products of types whose quants are unsigned: nibbles, five bits, or what nibbles point at in Type::kTable
// (16 values up to kTableMax). Type::kOffset is taken off by the sum of activations.
template <class Type>
struct UnsignedQuants {
  static constexpr bool kPoints = requires { Type::kTable; };
  static constexpr size_t kMost = [] {
    if constexpr (kPoints)
      return Type::kTableMax;
    else
      return size_t{Type::kFifth ? 31 : 15};
  }();

  // sum of (q - kOffset) * a over 32 columns, for kM rows of activations.
  template <size_t kM>
  static HWY_INLINE void Sums(const uint8_t* sub, size_t part, const ActTile<kM>& acts, size_t block,
                              VI* sums) {
    // Pairs of chunks whose 16-bit sums cannot overflow (targets with maddubs).
    constexpr size_t kRun = run_pairs(kMost, 4);
    Acc acc[kM];
    BF_UNROLL
    for (size_t m = 0; m < kM; ++m) {
      acc[m] = ZeroAcc();
      sums[m] = Type::kOffset == 0 ? hn::Zero(DI()) : hn::Set(DI(), -Type::kOffset * acts.Sum32(m, block));
    }
    V8 bits = hn::Zero(D8());
    if constexpr (Type::kFifth) bits = LoadChunk(sub + panel::kNibbleSub, part);
    BF_UNROLL
    for (size_t i = 0; i < 4; ++i) {
      const V8 both = LoadChunk(sub + i * panel::kChunkBytes, part);
      V8 low = ByteBits(both, 15), high = HighNibbles(both);
      if constexpr (Type::kFifth) {
        low = hn::Or(low, FifthBit(bits, 2 * i));
        high = hn::Or(high, FifthBit(bits, 2 * i + 1));
      }
      if constexpr (kPoints) {
        const V8 table = hn::LoadDup128(D8(), Type::kTable.data());
        low = hn::TableLookupBytes(table, low);
        high = hn::TableLookupBytes(table, high);
      }
      BF_UNROLL
      for (size_t m = 0; m < kM; ++m) {
        const int8_t* a = acts.q[m] + block * 32 + i * 8;
        acc[m] = Step(Step(acc[m], low, a), high, a + 4);
        if ((i + 1) % kRun == 0) {
          sums[m] = Flush(acc[m], sums[m]);
          acc[m] = ZeroAcc();
        }
      }
    }
  }
};

// Products of types whose quants are, or point at, signed bytes: a step of four columns, and the end of 32.
template <size_t kM>
HWY_INLINE void StepSignedAll(SignedAcc* acc, V8 weights, const ActTile<kM>& acts, size_t column) {
  const SignedWeights w = MakeSigned(weights);
  BF_UNROLL
  for (size_t m = 0; m < kM; ++m) acc[m] = StepSigned(acc[m], w, acts.q[m] + column);
}
template <size_t kM>
HWY_INLINE void FlushSignedAll(const SignedAcc* acc, const ActTile<kM>& acts, size_t block, VI* sums) {
  BF_UNROLL
  for (size_t m = 0; m < kM; ++m) {
    sums[m] = FlushSigned(acc[m]);
    if (kSignedOffset != 0) sums[m] = hn::Sub(sums[m], hn::Set(DI(), kSignedOffset * acts.Sum32(m, block)));
  }
}

// A tile for RunPanels(): exact integer sums per 32 columns (Quants::Sums), then one FMA per block and
// output, two with minimums.
template <class Type, class Quants>
struct Q32Tile {
  static constexpr ActKind kAct = ActKind::kQ8x32;
  static constexpr size_t kBlock = 32;

  struct Panel {
    const uint8_t* quants;
    const uint8_t* scales;
    HWY_INLINE Panel(const std::byte* data, size_t cols)
        : quants(reinterpret_cast<const uint8_t*>(data)),
          scales(quants + panel::q32_scales(cols, Type::kSubBytes)) {}
  };

  // See RunShards().
  template <size_t kM, size_t kPasses, class Cuts>
  static HWY_INLINE void Blocks(const Panel& panel, size_t blocks, size_t part_begin, const ActTile<kM>& acts,
                                PanelPrefetch& prefetch, VF (&acc)[kM][kPasses], Cuts& cuts) {
    for (size_t block = 0; block < blocks; ++block) {
      prefetch.Lines(Type::kSubBytes + Type::kScaleBytes);
      BF_UNROLL
      for (size_t p = 0; p < kPasses; ++p) {
        const size_t part = part_begin + p;
        VI sums[kM];
        Quants::template Sums<kM>(panel.quants + block * Type::kSubBytes, part, acts, block, sums);
        const uint8_t* scales = panel.scales + block * Type::kScaleBytes;
        const VF d = LoadScales<Type>(scales, part * kVF);
        BF_UNROLL
        for (size_t m = 0; m < kM; ++m) {
          const VF da = hn::Set(DF(), acts.d[m][block]);
          acc[m][p] = Fma(hn::ConvertTo(DF(), sums[m]), hn::Mul(d, da), acc[m][p]);
          if constexpr (Type::kMin) {
            const VF total = hn::Set(DF(), static_cast<float>(acts.Sum32(m, block)));
            acc[m][p] =
                Fma(total, hn::Mul(LoadScales<Type>(scales + panel::kScaleRow, part * kVF), da), acc[m][p]);
          }
        }
      }
      cuts.Behind(acc);
    }
  }
};

// See PackFormat::matmul.
template <class Type>
HWY_INLINE void MatmulUnsigned(const MatmulJob& job) {
  RunPanels<Q32Tile<Type, UnsignedQuants<Type>>>(job);
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
