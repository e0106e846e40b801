// Element types: names, GGUF numbers and block sizes. One row each in dtype_table.cc.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace butterfly {

enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
  kMXFP4,
  kQ1_0,
  kQ2_0,
  kTQ1_0,
  kTQ2_0,
  kIQ2_XXS,
  kIQ2_XS,
  kIQ2_S,
  kIQ3_XXS,
  kIQ3_S,
  kIQ1_S,
  kIQ1_M,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
};

struct DTypeInfo {
  DType dtype;
  std::string_view name;  // as in GGUF tools: "Q4_K"
  int32_t gguf_id;        // ggml_type number, -1 where GGUF has none
  uint32_t block_values;  // values per block; 1 for plain types
  uint32_t block_bytes;
  bool quantised() const { return block_values > 1; }
};

std::span<const DTypeInfo> dtype_table();
const DTypeInfo& dtype_info(DType dtype);
inline std::string_view dtype_name(DType dtype) { return dtype_info(dtype).name; }
std::optional<DType> dtype_by_name(std::string_view name);  // case-insensitive
std::optional<DType> dtype_by_gguf_id(uint32_t id);

// Bytes of `count` values; `count` must be a multiple of the block. Nothing on overflow or a partial block.
std::optional<uint64_t> dtype_bytes(DType dtype, uint64_t count);

}  // namespace butterfly
