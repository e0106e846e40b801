#include <algorithm>
#include <cctype>

#include "base/check.h"
#include "base/checked.h"
#include "tensor/dtype.h"

namespace butterfly {
namespace {

// In the order of the enum. Block layouts are ggml's.
constexpr DTypeInfo kTypes[] = {
    {DType::kF32, "F32", 0, 1, 4},
    {DType::kF16, "F16", 1, 1, 2},
    {DType::kBF16, "BF16", 30, 1, 2},
    {DType::kQ4_0, "Q4_0", 2, 32, 18},
    {DType::kQ4_1, "Q4_1", 3, 32, 20},
    {DType::kQ5_0, "Q5_0", 6, 32, 22},
    {DType::kQ5_1, "Q5_1", 7, 32, 24},
    {DType::kQ8_0, "Q8_0", 8, 32, 34},
    {DType::kQ2_K, "Q2_K", 10, 256, 84},
    {DType::kQ3_K, "Q3_K", 11, 256, 110},
    {DType::kQ4_K, "Q4_K", 12, 256, 144},
    {DType::kQ5_K, "Q5_K", 13, 256, 176},
    {DType::kQ6_K, "Q6_K", 14, 256, 210},
    {DType::kIQ4_NL, "IQ4_NL", 20, 32, 18},
    {DType::kIQ4_XS, "IQ4_XS", 23, 256, 136},
    {DType::kMXFP4, "MXFP4", 39, 32, 17},
    {DType::kQ1_0, "Q1_0", 41, 128, 18},
    {DType::kQ2_0, "Q2_0", 42, 64, 18},
    {DType::kTQ1_0, "TQ1_0", 34, 256, 54},
    {DType::kTQ2_0, "TQ2_0", 35, 256, 66},
    {DType::kIQ2_XXS, "IQ2_XXS", 16, 256, 66},
    {DType::kIQ2_XS, "IQ2_XS", 17, 256, 74},
    {DType::kIQ2_S, "IQ2_S", 22, 256, 82},
    {DType::kIQ3_XXS, "IQ3_XXS", 18, 256, 98},
    {DType::kIQ3_S, "IQ3_S", 21, 256, 110},
    {DType::kIQ1_S, "IQ1_S", 19, 256, 50},
    {DType::kIQ1_M, "IQ1_M", 29, 256, 56},
    {DType::kI8, "I8", 24, 1, 1},
    {DType::kI16, "I16", 25, 1, 2},
    {DType::kI32, "I32", 26, 1, 4},
    {DType::kI64, "I64", 27, 1, 8},
    {DType::kU8, "U8", -1, 1, 1},
};

}  // namespace

std::span<const DTypeInfo> dtype_table() { return kTypes; }

const DTypeInfo& dtype_info(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  BF_CHECK(index < std::size(kTypes) && kTypes[index].dtype == dtype) << "dtype " << index;
  return kTypes[index];
}

std::optional<DType> dtype_by_name(std::string_view name) {
  const auto same = [](unsigned char a, unsigned char b) { return std::toupper(a) == std::toupper(b); };
  for (const DTypeInfo& row : kTypes)
    if (std::equal(name.begin(), name.end(), row.name.begin(), row.name.end(), same)) return row.dtype;
  return std::nullopt;
}

std::optional<DType> dtype_by_gguf_id(uint32_t id) {
  for (const DTypeInfo& row : kTypes)
    if (row.gguf_id >= 0 && static_cast<uint32_t>(row.gguf_id) == id) return row.dtype;
  return std::nullopt;
}

std::optional<uint64_t> dtype_bytes(DType dtype, uint64_t count) {
  const DTypeInfo& info = dtype_info(dtype);
  if (!info.quantised())
    return checked_mul(count, info.block_bytes);  // no division: tensors are made in hot paths
  if (count % info.block_values != 0) return std::nullopt;
  return checked_mul(count / info.block_values, info.block_bytes);
}

}  // namespace butterfly
