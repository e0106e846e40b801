#include "base/rng.h"

namespace butterfly {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;  // golden ratio
constexpr uint32_t kWeyl1 = 0xBB67AE85;  // sqrt(3) - 1
constexpr int kRounds = 10;

constexpr uint64_t kLaneStep = 0x9E3779B97F4A7C15;

// Four words for one draw. Seed is the key; stream and index fill the counter, so distinct draws never share
// a counter. A second lane of the same draw has to differ in the key, the counter is full.
std::array<uint32_t, 4> block(uint64_t seed, uint64_t stream, uint64_t index, uint64_t lane) {
  const uint64_t key = seed + lane * kLaneStep;
  return philox({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                 static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)},
                {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
}

// 128 bits hold six values of 21 bits.
constexpr int kTermBits = 21;
constexpr uint64_t kTermMax = (uint64_t{1} << kTermBits) - 1;

uint64_t sum_of_six(const std::array<uint32_t, 4>& words) {
  const uint64_t low = words[0] | uint64_t{words[1]} << 32;
  const uint64_t high = words[2] | uint64_t{words[3]} << 32;
  return (low & kTermMax) + (low >> kTermBits & kTermMax) + (low >> 2 * kTermBits & kTermMax) +
         (high & kTermMax) + (high >> kTermBits & kTermMax) + (high >> 2 * kTermBits & kTermMax);
}

}  // namespace

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = uint64_t{kMultiplier0} * counter[0];
    const uint64_t product1 = uint64_t{kMultiplier1} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

uint64_t random_u64(uint64_t seed, uint64_t stream, uint64_t index) {
  const auto words = block(seed, stream, index, 0);
  return words[0] | uint64_t{words[1]} << 32;
}

float random_uniform(uint64_t seed, uint64_t stream, uint64_t index) {
  return static_cast<float>(random_u64(seed, stream, index) >> 40) * 0x1p-24f;
}

// Twelve terms of 21 bits: the centred sum is an integer below 2^24, so nothing is ever rounded. Lanes 1 and
// 2 keep the bits apart from those of random_u64 with the same arguments.
float random_normal(uint64_t seed, uint64_t stream, uint64_t index) {
  const uint64_t sum = sum_of_six(block(seed, stream, index, 1)) + sum_of_six(block(seed, stream, index, 2));
  const auto centred = static_cast<int32_t>(static_cast<int64_t>(sum) - 6 * static_cast<int64_t>(kTermMax));
  return static_cast<float>(centred) * 0x1p-21f;
}

}  // namespace butterfly
