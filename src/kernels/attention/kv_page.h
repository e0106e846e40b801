// Pages of the key/value cache: 32 positions of one layer and one KV head, laid out for attention.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace butterfly::kernels {

// Positions per page, and keys per attention block: a query walks whole pages from position 0.
inline constexpr size_t kKvPage = 32;

// F32, F16 or Q8_0 (head_dim a multiple of 32). Keys stand as two panels of 16, so that keys are in vector
// lanes; values as rows padded to 16 floats. Or the values are the beginnings of the keys (a latent that both
// are made of), and are not stored.
struct KvLayout {
  DType dtype = DType::kF16;
  size_t head_dim = 0;
  size_t value_dim = 0;  // 0: as head_dim
  bool latent = false;   // value i is key i, for the first value_dim

  size_t values() const { return value_dim == 0 ? head_dim : value_dim; }
  size_t padded_dim() const { return (head_dim + 15) / 16 * 16; }
  size_t padded_values() const { return (values() + 15) / 16 * 16; }
  // As floats, with values apart.
  KvLayout wide() const { return {DType::kF32, head_dim, value_dim, false}; }
  size_t key_panel_bytes() const;  // 16 keys
  size_t values_offset() const { return 2 * key_panel_bytes(); }
  size_t value_scales_offset() const;  // Q8_0: after the value bytes
  size_t page_bytes() const;           // a multiple of 64
};

// Why this cache type cannot be used, or nullptr.
const char* kv_why_not(const KvLayout& layout);

// Writes the key and value of one position (0 to 31) of a page; of a latent layout the key is all.
void kv_store(const KvLayout& layout, std::byte* page, size_t slot, const float* key, const float* value);

}  // namespace butterfly::kernels
