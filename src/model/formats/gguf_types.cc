// ggml's tensor type numbers by name, so that an error can say what a file holds.
#include "kernels/quant/nvfp4.h"
#include "model/formats/gguf.h"

namespace butterfly::model {
namespace {

struct GgmlType {
  uint32_t id;
  std::string_view name;
};

// Only those that the dtype table does not have.
constexpr GgmlType kOtherTypes[] = {
    {4, "Q4_2 (removed from ggml)"},
    {5, "Q4_3 (removed from ggml)"},
    {9, "Q8_1"},
    {15, "Q8_K"},
    {28, "F64"},
    {31, "Q4_0_4_4 (removed from ggml)"},
    {32, "Q4_0_4_8 (removed from ggml)"},
    {33, "Q4_0_8_8 (removed from ggml)"},
    {36, "IQ4_NL_4_4 (removed from ggml)"},
    {37, "IQ4_NL_4_8 (removed from ggml)"},
    {38, "IQ4_NL_8_8 (removed from ggml)"},
};

constexpr WidenedType kWidened[] = {
    {40, "NVFP4", kernels::kNvfp4Values, sizeof(kernels::BlockNVFP4), DType::kF16,
     [](const std::byte* from, std::byte* to, size_t count) {
       kernels::nvfp4_to_f16(from, reinterpret_cast<uint16_t*>(to), count);
     }},
};

}  // namespace

std::string_view ggml_type_name(uint32_t id) {
  if (const auto dtype = dtype_by_gguf_id(id)) return dtype_name(*dtype);
  if (const WidenedType* widened = widened_type(id)) return widened->name;
  for (const GgmlType& row : kOtherTypes)
    if (row.id == id) return row.name;
  return {};
}

const WidenedType* widened_type(uint32_t id) {
  for (const WidenedType& row : kWidened)
    if (row.id == id) return &row;
  return nullptr;
}

}  // namespace butterfly::model
