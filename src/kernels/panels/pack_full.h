// Packing of whole panels by vectors: what pack.h does for 16 rows that all exist, at the speed of memory.
#pragma once
#include <cstddef>

namespace butterfly::kernels {

// 16 rows in file layout, and the panel they become.
struct FullPanel {
  const std::byte* rows;
  size_t row_bytes;
  size_t cols;
  std::byte* to;
};

// See PackFormat::pack_full. The same bytes as the functions of pack.h.
void pack_full_f32(const FullPanel& panel);
void pack_full_half(const FullPanel& panel);  // F16 and BF16
void pack_full_q8_0(const FullPanel& panel);
void pack_full_q4_0(const FullPanel& panel);
void pack_full_q4_1(const FullPanel& panel);
void pack_full_q5_0(const FullPanel& panel);
void pack_full_q5_1(const FullPanel& panel);
void pack_full_iq4_nl(const FullPanel& panel);
void pack_full_q4_k(const FullPanel& panel);
void pack_full_q5_k(const FullPanel& panel);
void pack_full_q6_k(const FullPanel& panel);

}  // namespace butterfly::kernels
