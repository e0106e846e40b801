// Q1_0 panels: a bit for each value, one scale per 128 columns.
//
// A sub-block of 32 columns is 64 bytes: bit c of byte (row, j) belongs to column 4c + j, as the fifth bits
// of five-bit types. Quants of the whole panel come first, then a row of f16 scales per 128 columns.
#include "kernels/quant/q1_0.h"

#include "kernels/panels/pack_table.h"
#include "kernels/panels/planes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/panels/q1_0.cc"
#include "hwy/foreach_target.h"
#include "kernels/panels/q32-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {
namespace {

struct Q1_0 {
  static constexpr size_t kValues = 128;  // of a block
  static constexpr size_t kQuantBytes = kValues / 32 * panel::kChunkBytes;
  static size_t scales(size_t cols) { return cols / kValues * kQuantBytes; }
};

#if HWY_TARGET == HWY_SCALAR

void pack_full(const FullPanel& p) { q1_0_panels.pack(p.rows, p.row_bytes, kPanelRows, p.cols, p.to); }
void matmul_panels(const MatmulJob& job) { ref::matmul_panels(DType::kQ1_0, job); }

#else

void pack_full(const FullPanel& p) {
  auto* quants = reinterpret_cast<uint8_t*>(p.to);
  uint8_t* scales = quants + Q1_0::scales(p.cols);
  EachBlock(p, sizeof(BlockQ1_0), [&](size_t row, size_t b, const uint8_t* at) HWY_ATTR {
    const Words w(at + offsetof(BlockQ1_0, qs), p.row_bytes);
    BF_UNROLL
    for (size_t j = 0; j < 4; ++j)
      StoreWords(SpreadFifthBits(w.v[j]), quants + b * Q1_0::kQuantBytes + j * panel::kChunkBytes + row * 4);
    CopyHalves(at, p.row_bytes, scales + b * panel::kScaleRow + 2 * row);
  });
}

// Bit kChunk of each byte, as 1 or 0.
template <int kChunk>
HWY_INLINE V8 OneBit(V8 bits) {
  const auto wide = hn::BitCast(hn::RebindToUnsigned<D16>(), bits);
  return ByteBits(hn::BitCast(D8(), hn::ShiftRight<kChunk>(wide)), 1);
}

// The sum of what is added is at most 32 steps of 2 * 127: it fits the 16 bits of targets with maddubs.
template <int kChunk, size_t kM>
HWY_INLINE void AddBits(V8 bits, const ActTile<kM>& acts, size_t column, Acc* acc) {
  const V8 ones = OneBit<kChunk>(bits);
  BF_UNROLL
  for (size_t m = 0; m < kM; ++m) acc[m] = Step(acc[m], ones, acts.q[m] + column + kChunk * 4);
}

struct Q1Tile {
  static constexpr ActKind kAct = ActKind::kQ8x128;
  static constexpr size_t kBlock = Q1_0::kValues;

  struct Panel {
    const uint8_t* quants;
    const uint8_t* scales;
    HWY_INLINE Panel(const std::byte* data, size_t cols)
        : quants(reinterpret_cast<const uint8_t*>(data)), scales(quants + Q1_0::scales(cols)) {}
  };

  // See RunShards(). A value is 2 bit - 1 times the scale.
  template <size_t kM, size_t kPasses, class Cuts>
  static HWY_INLINE void Blocks(const Panel& panel, size_t blocks, size_t part_begin, const ActTile<kM>& acts,
                                PanelPrefetch& prefetch, VF (&acc)[kM][kPasses], Cuts& cuts) {
    for (size_t block = 0; block < blocks; ++block) {
      prefetch.Lines(Q1_0::kQuantBytes + panel::kScaleRow);
      int32_t totals[kM];
      BF_UNROLL
      for (size_t m = 0; m < kM; ++m)
        totals[m] = acts.Sum32(m, 4 * block) + acts.Sum32(m, 4 * block + 1) + acts.Sum32(m, 4 * block + 2) +
                    acts.Sum32(m, 4 * block + 3);
      BF_UNROLL
      for (size_t p = 0; p < kPasses; ++p) {
        const size_t part = part_begin + p;
        Acc ones[kM];
        BF_UNROLL
        for (size_t m = 0; m < kM; ++m) ones[m] = ZeroAcc();
        for (size_t s = 0; s < 4; ++s) {
          const V8 bits = LoadChunk(panel.quants + block * Q1_0::kQuantBytes + s * panel::kChunkBytes, part);
          const size_t column = block * Q1_0::kValues + s * 32;
          AddBits<0, kM>(bits, acts, column, ones);
          AddBits<1, kM>(bits, acts, column, ones);
          AddBits<2, kM>(bits, acts, column, ones);
          AddBits<3, kM>(bits, acts, column, ones);
          AddBits<4, kM>(bits, acts, column, ones);
          AddBits<5, kM>(bits, acts, column, ones);
          AddBits<6, kM>(bits, acts, column, ones);
          AddBits<7, kM>(bits, acts, column, ones);
        }
        const VF d =
            LoadF16(reinterpret_cast<const uint16_t*>(panel.scales + block * panel::kScaleRow) + part * kVF);
        BF_UNROLL
        for (size_t m = 0; m < kM; ++m) {
          const VI sum = hn::Sub(hn::ShiftLeft<1>(Flush(ones[m], hn::Zero(DI()))), hn::Set(DI(), totals[m]));
          acc[m][p] = Fma(hn::ConvertTo(DF(), sum), hn::Mul(d, hn::Set(DF(), acts.d[m][block])), acc[m][p]);
        }
      }
      cuts.Behind(acc);
    }
  }
};
void matmul_panels(const MatmulJob& job) { RunPanels<Q1Tile>(job); }

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace
}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
using HWY_NAMESPACE::Q1_0;
HWY_EXPORT(pack_full);
HWY_EXPORT(matmul_panels);
void best_pack_full(const FullPanel& panel) { HWY_DYNAMIC_DISPATCH(pack_full)(panel); }
void best_matmul(const MatmulJob& job) { HWY_DYNAMIC_DISPATCH(matmul_panels)(job); }

size_t panel_bytes(size_t cols) { return cols / Q1_0::kValues * (Q1_0::kQuantBytes + panel::kScaleRow); }

void pack(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* to) {
  uint8_t* quants = bytes_of(to);
  uint8_t* scales = quants + Q1_0::scales(cols);
  if (valid < kPanelRows) std::memset(quants, 0, panel_bytes(cols));
  each_block<BlockQ1_0>(rows, row_bytes, valid, [&](size_t row, size_t b, const BlockQ1_0& block) {
    for (size_t s = 0; s < 4; ++s) {
      const uint32_t word = load_word(block.qs + 4 * s);
      uint32_t spread = 0;
      for (size_t i = 0; i < 32; ++i) spread |= (word >> i & 1u) << (i % 4 * 8 + i / 4);
      store_word(quants + b * Q1_0::kQuantBytes + s * panel::kChunkBytes + row * 4, spread);
    }
    std::memcpy(scales + b * panel::kScaleRow + 2 * row, &block.d, 2);
  });
}

void unpack(const std::byte* panel_data, size_t cols, size_t row, size_t block, IntBlock* to) {
  const uint8_t* quants = bytes_of(panel_data);
  for (size_t i = 0; i < Q1_0::kValues; i += 4) {
    const uint8_t* sub = quants + block * Q1_0::kQuantBytes + i / 32 * panel::kChunkBytes;
    const uint32_t bits = load_word(sub + row * 4) >> (i % 32 / 4) & 0x01010101u;
    // 1 becomes 1, 0 becomes -1, byte by byte.
    store_word(reinterpret_cast<uint8_t*>(to->q + i), bits | (0x01010101u - bits) * 0xffu);
  }
  for (size_t g = 0; g < 4; ++g) {
    to->scale[g] = 1;
    to->min[g] = 0;
  }
  to->d = get_half(quants + Q1_0::scales(cols) + block * panel::kScaleRow, row);
  to->dmin = 0;
}
}  // namespace

constinit const PackFormat q1_0_panels = {.dtype = DType::kQ1_0,
                                          .panel_bytes = panel_bytes,
                                          .pack = pack,
                                          .pack_full = best_pack_full,
                                          .unpack = unpack,
                                          .matmul = best_matmul};

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
