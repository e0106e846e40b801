// Q6_K panels: six bits less 32, a signed scale per 16 columns, its own scale per 256.
//
// A sub-block is the nibbles and two 64-byte planes of upper bits: bits 2i, 2i+1 of plane h belong to chunk
// 4h
// + i. Scales: i8 scale[8 pairs][16 rows][2] for groups of 16 columns, f16 d[16].
#if defined(__x86_64__)
#include "kernels/amx/amx_k.h"
#endif
#include "kernels/panels/k_types.h"
#include "kernels/panels/pack_table.h"
#include "kernels/quant/q6_k.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/panels/q6_k.cc"
#include "hwy/foreach_target.h"
#include "kernels/panels/k_types-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {
namespace {

struct Q6_K {
  static constexpr size_t kSubBytes = panel::kNibbleSub + 2 * panel::kChunkBytes;
  static constexpr size_t kDOffset = 16 * kPanelRows;
  static constexpr size_t kScaleBytes = kDOffset + panel::kScaleRow;  // 288
};

#if HWY_TARGET == HWY_SCALAR

// The plain loops.
void pack_full(const FullPanel& p) { q6_k_panels.pack(p.rows, p.row_bytes, kPanelRows, p.cols, p.to); }
void matmul_panels(const MatmulJob& job) { ref::matmul_panels(DType::kQ6_K, job); }

#else

void pack_full(const FullPanel& p) {
  auto* quants = reinterpret_cast<uint8_t*>(p.to);
  uint8_t* scales = quants + p.cols / 32 * Q6_K::kSubBytes;
  EachBlock(p, sizeof(BlockQ6_K), [&](size_t row, size_t b, const uint8_t* at) HWY_ATTR {
    for (size_t half = 0; half < 2; ++half) {  // 128 values each
      uint8_t* subs = quants + (b * 8 + half * 4) * Q6_K::kSubBytes + row * 4;
      for (size_t i = 0; i < 2; ++i) {
        const NibblePlanes planes(at + offsetof(BlockQ6_K, ql) + half * 64 + i * 32, p.row_bytes);
        planes.StoreLow(subs + i * Q6_K::kSubBytes);
        planes.StoreHigh(subs + (i + 2) * Q6_K::kSubBytes);
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
          StoreWords(upper,
                     subs + quarter * Q6_K::kSubBytes + panel::kNibbleSub + plane * panel::kChunkBytes);
        }
      }
    }
    const Words groups(at + offsetof(BlockQ6_K, scales), p.row_bytes);
    uint8_t* scale = scales + b * Q6_K::kScaleBytes + 2 * row;
    BF_UNROLL
    for (size_t j = 0; j < 4; ++j) StoreTwoRows(groups.v[j], scale + j * 4 * kPanelRows);
    CopyHalves(at + offsetof(BlockQ6_K, d), p.row_bytes, scale + Q6_K::kDOffset);
  });
}

struct Q6_KProduct : Q6_K {
  static constexpr size_t kGroupPairs = 2;
  static constexpr size_t kMaxWeight = 63;
  template <int kPair>
  static HWY_INLINE ChunkPair Load(const uint8_t* sub, size_t part) {
    const V8 both = LoadChunk(sub + kPair * panel::kChunkBytes, part);
    const V8 bits = LoadChunk(sub + panel::kNibbleSub + kPair / 2 * panel::kChunkBytes, part);
    return {hn::Or(ByteBits(both, 15), MoveToBit4<4 * (kPair % 2)>(bits, 0x30)),
            hn::Or(HighNibbles(both), MoveToBit4<4 * (kPair % 2) + 2>(bits, 0x30))};
  }

  template <size_t kM>
  static HWY_INLINE void AddSub(const uint8_t* sub, const uint8_t* scale, size_t part,
                                const ActTile<kM>& acts, size_t block, size_t s, VI* sums, VI* offset) {
    const hn::Rebind<int8_t, D16> d8;
    const auto* from = reinterpret_cast<const int8_t*>(scale) + (s * kPanelRows + part * kVF) * 2;
    const V16 pairs = hn::PromoteTo(D16(), hn::LoadU(d8, from));
    const VI wide = hn::BitCast(DI(), pairs);
    const Scale low = MakeScale(hn::ShiftRight<16>(hn::ShiftLeft<16>(wide)));
    const Scale high = MakeScale(hn::ShiftRight<16>(wide));
    SubBlock<Q6_KProduct, kM>(sub, part, acts, block * 256 + s * 32, low, high, sums);
    BF_UNROLL
    for (size_t m = 0; m < kM; ++m) {
      const V16 a = hn::BitCast(D16(), hn::Set(DI(), TwoShorts(acts.sums[m] + (block * 8 + s) * 2)));
      offset[m] = hn::Add(offset[m], PairProducts(pairs, a));
    }
  }

  template <size_t kM, size_t kPasses>
  static HWY_INLINE void Finish(const uint8_t* scale, size_t part, const ActTile<kM>& acts, size_t block,
                                const VI* sums, const VI* offset, VF (&acc)[kM][kPasses], size_t p) {
    const VF d = LoadF16(reinterpret_cast<const uint16_t*>(scale + kDOffset) + part * kVF);
    BF_UNROLL
    for (size_t m = 0; m < kM; ++m) {
      const VI sum = hn::Sub(sums[m], hn::ShiftLeft<5>(offset[m]));
      acc[m][p] = Fma(hn::ConvertTo(DF(), sum), hn::Mul(d, hn::Set(DF(), acts.d[m][block])), acc[m][p]);
    }
  }
};
void matmul_panels(const MatmulJob& job) { RunPanels<KTile<Q6_KProduct>>(job); }

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace
}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
using HWY_NAMESPACE::Q6_K;
HWY_EXPORT(pack_full);
HWY_EXPORT(matmul_panels);
void best_pack_full(const FullPanel& panel) { HWY_DYNAMIC_DISPATCH(pack_full)(panel); }
void best_matmul(const MatmulJob& job) { HWY_DYNAMIC_DISPATCH(matmul_panels)(job); }

size_t panel_bytes(size_t cols) { return cols / 256 * (8 * Q6_K::kSubBytes + Q6_K::kScaleBytes); }

void pack(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* to) {
  const auto put_block = [](uint8_t* subs, uint8_t* scale, size_t row, const BlockQ6_K& block) {
    for (size_t s = 0; s < 8; ++s) {
      uint8_t* sub = subs + s * Q6_K::kSubBytes;
      const size_t half = s / 4, quarter = s % 4;  // 128 values, and 32 of them
      put_nibbles(sub, row, block.ql + half * 64 + quarter % 2 * 32, static_cast<unsigned>(quarter / 2 * 4));
      for (size_t plane = 0; plane < 2; ++plane) {
        uint32_t upper = 0;
        for (size_t i = 0; i < 4; ++i)
          upper |= (load_word(block.qh + half * 32 + plane * 16 + 4 * i) >> (2 * quarter) & 0x03030303u)
                   << (2 * i);
        store_word(sub + panel::kNibbleSub + plane * panel::kChunkBytes + row * 4, upper);
      }
    }
    for (size_t g = 0; g < 16; ++g)
      scale[(g / 2 * kPanelRows + row) * 2 + g % 2] = static_cast<uint8_t>(block.scales[g]);
    std::memcpy(scale + Q6_K::kDOffset + 2 * row, &block.d, 2);
  };
  pack_k_blocks<BlockQ6_K>(rows, row_bytes, valid, cols, to, Q6_K::kSubBytes, Q6_K::kScaleBytes, put_block);
}

void unpack(const std::byte* panel_data, size_t cols, size_t row, size_t block, IntBlock* to) {
  const uint8_t* quants = bytes_of(panel_data);
  const uint8_t* scale = quants + cols / 32 * Q6_K::kSubBytes + block * Q6_K::kScaleBytes;
  for (size_t s = 0; s < 8; ++s) {
    const uint8_t* sub = quants + (block * 8 + s) * Q6_K::kSubBytes;
    const RowHalves nibbles = nibbles_of(sub, row);
    const auto upper = [&](size_t plane) {
      const uint32_t bits = load_word(sub + panel::kNibbleSub + plane * panel::kChunkBytes + row * 4);
      return (RowWords{bits, bits >> 2, bits >> 4, bits >> 6} & 0x03030303u) << 4;
    };
    uint8_t stored[32];
    store_words(stored, nibbles.first | upper(0));
    store_words(stored + 16, nibbles.second | upper(1));
    store_less(stored, 32, to->q + 32 * s);
  }
  for (size_t g = 0; g < 16; ++g) {
    to->scale[g] = static_cast<int8_t>(scale[(g / 2 * kPanelRows + row) * 2 + g % 2]);
    to->min[g] = 0;
  }
  to->d = get_half(scale + Q6_K::kDOffset, row);
  to->dmin = 0;
}

#if defined(__x86_64__)
struct Unpack {
  static constexpr size_t kSubBytes = Q6_K::kSubBytes, kScaleBytes = Q6_K::kScaleBytes;
  BF_AMX_INLINE static __m512i chunk(const uint8_t* sub, size_t chunk) {
    const __m512i nibble = amx::nibbles(sub, chunk);
    const __m512i bits = amx::load_chunk(sub + panel::kNibbleSub + chunk / 4 * panel::kChunkBytes);
    const __m512i two = _mm512_and_si512(
        _mm512_srl_epi16(bits, _mm_cvtsi32_si128(static_cast<int>(chunk % 4 * 2))), _mm512_set1_epi8(3));
    return _mm512_sub_epi8(_mm512_or_si512(nibble, _mm512_slli_epi16(two, 4)), _mm512_set1_epi8(32));
  }
  BF_AMX_INLINE static void scales(const uint8_t* scale, size_t sub, __m512i to[2]) {
    const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(scale + sub * kPanelRows * 2));
    const __m512i wide = _mm512_cvtepi8_epi16(pairs);
    const __m512i low = _mm512_and_si512(wide, _mm512_set1_epi32(0xffff));
    const __m512i high = _mm512_srli_epi32(wide, 16);
    to[0] = _mm512_or_si512(low, _mm512_slli_epi32(low, 16));
    to[1] = _mm512_or_si512(high, _mm512_slli_epi32(high, 16));
  }
};
void matmul_tiles(const MatmulJob& job) {
  amx::matmul_k(job, {amx::unpack_k<Unpack>, Q6_K::kSubBytes, Q6_K::kScaleBytes, Q6_K::kDOffset, false});
}
// Unpacking is paid for by more rows than one tile has (Sapphire Rapids, kernels_bench matmul/ and bench
// --streams).
constexpr TileMatmul kTiles = {amx::kTileRows + 1, matmul_tiles};
#else
constexpr TileMatmul kTiles = {};
#endif
}  // namespace

constinit const PackFormat q6_k_panels = {.dtype = DType::kQ6_K,
                                          .panel_bytes = panel_bytes,
                                          .pack = pack,
                                          .pack_full = best_pack_full,
                                          .unpack = unpack,
                                          .matmul = best_matmul,
                                          .tiles = kTiles};

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
