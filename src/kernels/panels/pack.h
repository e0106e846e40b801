// File layout to panels and back, one pair of functions per packed type.
#pragma once
#include <cstddef>

#include "kernels/quant/quant.h"

namespace butterfly::kernels {

// See PackFormat::pack.
void pack_f32(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel);
void pack_half(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols,
               std::byte* panel);  // F16 and BF16
void pack_q8_0(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel);
void pack_q4_0(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel);
void pack_q4_1(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel);
void pack_q5_0(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel);
void pack_q5_1(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel);
void pack_iq4_nl(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel);
void pack_q4_k(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel);
void pack_q5_k(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel);
void pack_q6_k(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel);

// Block `block` of row `row` (0 to 15) of a packed panel of a quantised type, as integers: the inverse of
// packing.
void unpack_panel_block(DType dtype, const std::byte* panel, size_t cols, size_t row, size_t block,
                        IntBlock* to);

}  // namespace butterfly::kernels
