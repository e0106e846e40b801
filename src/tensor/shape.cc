#include "tensor/shape.h"

#include <fmt/format.h>

#include "base/check.h"

namespace butterfly {

Shape::Shape(std::span<const int64_t> sizes) : rank_(sizes.size()) {
  BF_CHECK(sizes.size() <= kMaxRank) << "rank " << sizes.size();
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    BF_CHECK(sizes[axis] >= 0) << "size " << sizes[axis] << " of axis " << axis;
    sizes_[axis] = sizes[axis];
  }
}

std::optional<int64_t> Shape::checked_count() const {
  // A zero anywhere makes it empty, whatever the other sizes multiply to.
  int64_t product = 1;
  bool fits = true;
  for (const int64_t size : sizes()) {
    if (size == 0) return 0;
    fits = fits && !__builtin_mul_overflow(product, size, &product);
  }
  if (!fits) return std::nullopt;
  return product;
}

int64_t Shape::count() const {
  const auto product = checked_count();
  BF_CHECK(product.has_value()) << to_string();
  return *product;
}

std::string Shape::to_string() const { return fmt::format("[{}]", fmt::join(sizes(), ", ")); }

}  // namespace butterfly
