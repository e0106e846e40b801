// Panels packed by vectors against the plain packers, byte for byte, over types, widths and targets.
#include "kernels/panels/pack_table.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"
#include "kernels/simd/target.h"

namespace butterfly::kernels {
namespace {

std::vector<std::byte> random_bytes(size_t count, uint64_t seed) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(random_u64(seed, 1, i));
  return bytes;
}

std::vector<size_t> widths(size_t block) {
  if (block == 1) return {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 64, 67};
  return {0, block, 2 * block, 3 * block, 9 * block};
}

// Any bytes are a valid file for packing: it only moves bits.
TEST(PackFull, EqualsThePlainPackerOnEveryTarget) {
  for (const PackFormat& format : pack_table()) {
    const DTypeInfo& info = dtype_info(format.dtype);
    for (size_t cols : widths(info.block_values)) {
      const size_t row_bytes = cols / info.block_values * info.block_bytes;
      // One byte off: rows in a file have no alignment.
      const auto file = random_bytes(kPanelRows * row_bytes + 1, cols + 1);
      const size_t size = format.panel_bytes(cols);
      constexpr std::byte kGuard{0xa5};
      std::vector<std::byte> want(size + 64, kGuard);
      format.pack(file.data() + 1, row_bytes, kPanelRows, cols, want.data());
      for_each_target([&](const std::string& target) {
        std::vector<std::byte> panel(size + 64, kGuard);
        format.pack_full({file.data() + 1, row_bytes, cols, panel.data()});
        EXPECT_EQ(panel, want) << dtype_name(format.dtype) << " " << target << " cols " << cols;
      });
    }
  }
}

}  // namespace
}  // namespace butterfly::kernels
