// Arithmetic on sizes that came from outside. A product or sum that does not fit is an answer, not a
// wrap-around.
#pragma once
#include <cstdint>
#include <optional>

namespace butterfly {

inline std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) {
  uint64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

inline std::optional<uint64_t> checked_mul(uint64_t a, uint64_t b) {
  uint64_t product;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// `value` rounded up to a multiple of `to` (a power of two), or nothing if that does not fit.
inline std::optional<uint64_t> checked_round_up(uint64_t value, uint64_t to) {
  const auto sum = checked_add(value, to - 1);
  if (!sum) return std::nullopt;
  return *sum & ~(to - 1);
}

constexpr uint64_t round_up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }
constexpr uint64_t ceil_div(uint64_t value, uint64_t by) { return (value + by - 1) / by; }

}  // namespace butterfly
