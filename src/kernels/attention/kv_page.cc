#include "kernels/attention/kv_page.h"

#include <cstring>

#include "base/check.h"
#include "base/checked.h"
#include "kernels/quant/quant.h"
#include "kernels/simd/half.h"
#include "kernels/tiles/panel_layout.h"

namespace butterfly::kernels {

size_t KvLayout::key_panel_bytes() const {
  if (dtype == DType::kQ8_0) return round_up(panel::q8_0_bytes(head_dim), 64);
  return round_up(head_dim * kPanelRows * dtype_info(dtype).block_bytes, 64);
}

size_t KvLayout::value_scales_offset() const { return values_offset() + kKvPage * padded_values(); }

size_t KvLayout::page_bytes() const {
  if (latent) return values_offset();
  if (dtype == DType::kQ8_0) return round_up(value_scales_offset() + kKvPage * values() / 32 * 2, 64);
  return round_up(values_offset() + kKvPage * padded_values() * dtype_info(dtype).block_bytes, 64);
}

const char* kv_why_not(const KvLayout& layout) {
  if (layout.dtype == DType::kF32 || layout.dtype == DType::kF16) return nullptr;
  if (layout.dtype != DType::kQ8_0) return "cache types are f32, f16 and q8_0";
  return layout.head_dim % 32 == 0 && layout.values() % 32 == 0
             ? nullptr
             : "a q8_0 cache needs a head size that is a multiple of 32";
}

namespace {

// Eight bits by blocks of 32, as ggml's Q8_0: scale in f16.
struct Q8Block {
  uint16_t d;
  int8_t q[32];
};
static_assert(sizeof(Q8Block) == 34);

void store_q8(const KvLayout& layout, std::byte* page, size_t slot, const float* key, const float* value) {
  auto* panel_data = reinterpret_cast<uint8_t*>(page) + slot / kPanelRows * layout.key_panel_bytes();
  auto* panel_scales = panel_data + panel::q8_0_scales(layout.head_dim);
  auto* values = reinterpret_cast<uint8_t*>(page) + layout.values_offset() + slot * layout.padded_values();
  auto* value_scales =
      reinterpret_cast<uint8_t*>(page) + layout.value_scales_offset() + slot * (layout.values() / 32) * 2;
  const size_t row = slot % kPanelRows;
  for (size_t b = 0; b < layout.head_dim / 32; ++b) {
    Q8Block block;
    from_float(DType::kQ8_0, key + 32 * b, reinterpret_cast<std::byte*>(&block), 32);
    for (size_t i = 0; i < 32; ++i)
      panel_data[b * panel::kByteSub + i / 4 * panel::kChunkBytes + row * 4 + i % 4] =
          static_cast<uint8_t>(block.q[i]);
    std::memcpy(panel_scales + b * panel::kScaleRow + 2 * row, &block.d, 2);
  }
  for (size_t b = 0; !layout.latent && b < layout.values() / 32; ++b) {
    Q8Block block;
    from_float(DType::kQ8_0, value + 32 * b, reinterpret_cast<std::byte*>(&block), 32);
    std::memcpy(values + 32 * b, block.q, 32);
    std::memcpy(value_scales + 2 * b, &block.d, 2);
  }
}

template <typename Value, typename Convert>
void store_plain(const KvLayout& layout, std::byte* page, size_t slot, const float* key, const float* value,
                 Convert convert) {
  auto* keys =
      reinterpret_cast<Value*>(page + slot / kPanelRows * layout.key_panel_bytes()) + slot % kPanelRows;
  auto* values = reinterpret_cast<Value*>(page + layout.values_offset()) + slot * layout.padded_values();
  for (size_t i = 0; i < layout.head_dim; ++i) keys[i * kPanelRows] = convert(key[i]);
  for (size_t i = 0; !layout.latent && i < layout.values(); ++i) values[i] = convert(value[i]);
}

}  // namespace

void kv_store(const KvLayout& layout, std::byte* page, size_t slot, const float* key, const float* value) {
  BF_DCHECK(slot < kKvPage) << slot;
  switch (layout.dtype) {
    case DType::kF32:
      return store_plain<float>(layout, page, slot, key, value, [](float f) { return f; });
    case DType::kF16:
      return store_plain<uint16_t>(layout, page, slot, key, value, f32_to_f16);
    case DType::kQ8_0:
      return store_q8(layout, page, slot, key, value);
    default:
      BF_CHECK(false) << "cache type " << dtype_name(layout.dtype);
  }
}

}  // namespace butterfly::kernels
