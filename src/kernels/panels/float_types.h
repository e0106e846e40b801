// Panels of float types: columns one after another, each with its 16 rows side by side.
#pragma once
#include <cstring>

#include "kernels/panels/pack_table.h"

namespace butterfly::kernels {

// Panel size and plain packer of a float type.
template <typename Value>
struct FloatLayout {
  static size_t panel_bytes(size_t cols) { return cols * kPanelRows * sizeof(Value); }

  // See PackFormat::pack.
  static void pack(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel) {
    auto* to = reinterpret_cast<Value*>(panel);
    for (size_t row = 0; row < kPanelRows; ++row) {
      for (size_t k = 0; k < cols; ++k) {
        Value value{};  // rows in a file have no alignment
        if (row < valid) std::memcpy(&value, rows + row * row_bytes + k * sizeof(Value), sizeof(Value));
        to[k * kPanelRows + row] = value;
      }
    }
  }
};

template <typename Value>
constexpr PackFormat float_format(DType dtype, void (*pack_full)(const FullPanel&),
                                  void (*matmul)(const MatmulJob&)) {
  return {.dtype = dtype,
          .panel_bytes = FloatLayout<Value>::panel_bytes,
          .pack = FloatLayout<Value>::pack,
          .pack_full = pack_full,
          .unpack = nullptr,
          .matmul = matmul};
}

}  // namespace butterfly::kernels
