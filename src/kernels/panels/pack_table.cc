#include "kernels/panels/pack_table.h"

#include "kernels/panels/pack.h"
#include "kernels/panels/pack_full.h"
#include "kernels/tiles/panel_layout.h"

namespace butterfly::kernels {
namespace {

size_t f32_bytes(size_t cols) { return cols * kPanelRows * 4; }
size_t half_bytes(size_t cols) { return cols * kPanelRows * 2; }
template <size_t kSub, size_t kScaleRows>
size_t q32_bytes(size_t cols) {
  return panel::q32_bytes(cols, kSub, kScaleRows);
}
size_t q4_k_bytes(size_t cols) { return cols / 256 * (8 * panel::kQ4KSub + panel::kKScales); }
size_t q5_k_bytes(size_t cols) { return cols / 256 * (8 * panel::kQ5KSub + panel::kKScales); }
size_t q6_k_bytes(size_t cols) { return cols / 256 * (8 * panel::kQ6KSub + panel::kQ6KScales); }

constexpr PackFormat kFormats[] = {
    {DType::kF32, f32_bytes, pack_f32, pack_full_f32, matmul_f32_panels},
    {DType::kF16, half_bytes, pack_half, pack_full_half, matmul_f16_panels},
    {DType::kBF16, half_bytes, pack_half, pack_full_half, matmul_bf16_panels},
    {DType::kQ8_0, q32_bytes<panel::kByteSub, 1>, pack_q8_0, pack_full_q8_0, matmul_q8_0_panels},
    {DType::kQ4_0, q32_bytes<panel::kNibbleSub, 1>, pack_q4_0, pack_full_q4_0, matmul_q4_0_panels},
    {DType::kQ4_1, q32_bytes<panel::kNibbleSub, 2>, pack_q4_1, pack_full_q4_1, matmul_q4_1_panels},
    {DType::kQ5_0, q32_bytes<panel::kFiveBitSub, 1>, pack_q5_0, pack_full_q5_0, matmul_q5_0_panels},
    {DType::kQ5_1, q32_bytes<panel::kFiveBitSub, 2>, pack_q5_1, pack_full_q5_1, matmul_q5_1_panels},
    {DType::kIQ4_NL, q32_bytes<panel::kNibbleSub, 1>, pack_iq4_nl, pack_full_iq4_nl, matmul_iq4_nl_panels},
    {DType::kQ4_K, q4_k_bytes, pack_q4_k, pack_full_q4_k, matmul_q4_k_panels},
    {DType::kQ5_K, q5_k_bytes, pack_q5_k, pack_full_q5_k, matmul_q5_k_panels},
    {DType::kQ6_K, q6_k_bytes, pack_q6_k, pack_full_q6_k, matmul_q6_k_panels},
};

}  // namespace

std::span<const PackFormat> pack_table() { return kFormats; }

const PackFormat* pack_format(DType dtype) {
  for (const PackFormat& format : kFormats)
    if (format.dtype == dtype) return &format;
  return nullptr;
}

}  // namespace butterfly::kernels
