#include "runtime/chain/row_format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "kernels/quant/quant.h"
#include "kernels/simd/half.h"

namespace butterfly::runtime {
namespace {

// Measured changes of perplexity are in docs/distributed-generation.md.
constexpr RowFormat kFormats[] = {
    {"f32", "exact: the bits of one machine", DType::kF32},
    {"f16", "half the bytes; 11 bits of each value", DType::kF16},
    {"int8", "27 % of the bytes; 8 bits of each value, one scale for 32", DType::kQ8_0},
};

constexpr float kF16Max = 65504;

}  // namespace

size_t RowFormat::row_bytes(size_t dim) const {
  const DTypeInfo& type = dtype_info(dtype);
  return dim / type.block_values * type.block_bytes;
}

std::string RowFormat::why_not(size_t dim) const {
  const size_t block = dtype_info(dtype).block_values;
  if (dim % block == 0) return {};
  return fmt::format("rows of {} values are not whole blocks of {}", dim, block);
}

void RowFormat::encode(std::span<const float> rows, std::span<std::byte> to) const {
  BF_CHECK(to.size() == row_bytes(rows.size()))
      << name << ": " << rows.size() << " values into " << to.size();
  if (dtype == DType::kF32) {
    std::memcpy(to.data(), rows.data(), to.size());
  } else if (dtype == DType::kF16) {
    for (size_t i = 0; i < rows.size(); ++i) {
      const uint16_t half = kernels::f32_to_f16(std::clamp(rows[i], -kF16Max, kF16Max));
      std::memcpy(to.data() + 2 * i, &half, 2);
    }
  } else {
    kernels::from_float(dtype, rows.data(), to.data(), rows.size());
  }
}

void RowFormat::decode(std::span<const std::byte> from, std::span<float> rows) const {
  BF_CHECK(from.size() == row_bytes(rows.size())) << name << ": " << from.size() << " into " << rows.size();
  kernels::to_float(dtype, from.data(), rows.data(), rows.size());
}

std::span<const RowFormat> row_formats() { return kFormats; }

const RowFormat& find_row_format(std::string_view name) {
  std::vector<std::string_view> names;
  for (const RowFormat& row : kFormats) {
    if (row.name == name) return row;
    names.push_back(row.name);
  }
  fail(Errc::kInvalidArgument, "rows cannot travel as '{}'; there are {}", name, fmt::join(names, ", "));
}

}  // namespace butterfly::runtime
