// Sizes of a tensor, outermost first: [rows, cols].
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

namespace butterfly {

inline constexpr size_t kMaxRank = 6;

// A short list of int64. Rank 0 is a scalar with one value.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> sizes)
      : Shape(std::span<const int64_t>(sizes.begin(), sizes.size())) {}
  // BF_CHECKs rank <= kMaxRank and sizes >= 0. Validate input before building a Shape from it.
  explicit Shape(std::span<const int64_t> sizes);

  size_t rank() const { return rank_; }
  int64_t operator[](size_t axis) const { return sizes_[axis]; }
  int64_t& operator[](size_t axis) { return sizes_[axis]; }
  int64_t back() const { return sizes_[rank_ - 1]; }
  std::span<const int64_t> sizes() const { return {sizes_.data(), rank_}; }

  // Product of the sizes; nothing if it does not fit into int64.
  std::optional<int64_t> checked_count() const;
  // Product of the sizes of a shape known to be good.
  int64_t count() const;

  std::string to_string() const;  // "[2, 3]"
  friend bool operator==(const Shape& a, const Shape& b) {
    return a.rank_ == b.rank_ && std::equal(a.sizes_.begin(), a.sizes_.begin() + a.rank_, b.sizes_.begin());
  }

 private:
  std::array<int64_t, kMaxRank> sizes_{};
  size_t rank_ = 0;
};

}  // namespace butterfly
