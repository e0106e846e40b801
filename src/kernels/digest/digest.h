// A 64-bit fingerprint of floats, for comparing machines that cannot compare arrays.
#pragma once
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

namespace butterfly::kernels {

// Words go in one after another, and their order counts. No memory of its own; one thread.
class Digest {
 public:
  void add_word(uint64_t word) {
    // Multiply, then bring the high bits down: every bit of the input reaches every bit of the state in two
    // words.
    state_ = (state_ ^ word) * 0x9e3779b97f4a7c15ULL;
    state_ ^= state_ >> 29;
  }
  // All NaNs count as one: their payload is the machine's choice.
  void add(float f) { add_word(std::isnan(f) ? 0x7fc00000u : std::bit_cast<uint32_t>(f)); }
  void add(double f) { add_word(std::isnan(f) ? 0x7ff8000000000000ULL : std::bit_cast<uint64_t>(f)); }
  void add(std::span<const float> floats) {
    add_word(floats.size());
    for (float f : floats) add(f);
  }
  void add(std::span<const std::byte> bytes) {
    add_word(bytes.size());
    for (std::byte b : bytes) add_word(static_cast<uint64_t>(b));
  }
  uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0x6a09e667f3bcc909ULL;
};

}  // namespace butterfly::kernels
