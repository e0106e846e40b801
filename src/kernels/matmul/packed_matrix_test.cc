// Whole matrices against the plain packer, panel by panel.
#include "kernels/matmul/packed_matrix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"
#include "kernels/panels/pack_table.h"

namespace butterfly::kernels {
namespace {

TEST(PackedMatrix, UsesBothPackers) {
  // 37 rows: two whole panels and five rows.
  for (const PackFormat& format : pack_table()) {
    const DTypeInfo& info = dtype_info(format.dtype);
    const size_t cols = 2 * info.block_values;
    Tensor w = Tensor::zeros(format.dtype, {37, static_cast<int64_t>(cols)});
    for (size_t i = 0; i < w.bytes(); ++i) w.raw()[i] = static_cast<std::byte>(random_u64(7, 1, i));
    const size_t row_bytes = w.bytes() / 37;
    const PackedMatrix packed(w);
    for (size_t panel = 0; panel < 3; ++panel) {
      std::vector<std::byte> want(format.panel_bytes(cols));
      format.pack(w.raw() + panel * kPanelRows * row_bytes, row_bytes, panel == 2 ? 5 : kPanelRows, cols,
                  want.data());
      const std::byte* have = packed.panel(panel);
      EXPECT_TRUE(std::equal(want.begin(), want.end(), have)) << dtype_name(format.dtype) << " " << panel;
    }
  }
}

}  // namespace
}  // namespace butterfly::kernels
