#include "train/data/shuffle.h"

#include <bit>
#include <utility>

#include "base/check.h"
#include "base/rng.h"

namespace butterfly::train {
namespace {

constexpr uint64_t kShuffleStream = 0x73687566'666c6500;  // "shuffle": apart from other draws of the seed

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 32)) * 0xd6e8feb8'6659fd93u;
  x = (x ^ (x >> 32)) * 0xd6e8feb8'6659fd93u;
  return x ^ (x >> 32);
}

uint64_t mask(int bits) { return (uint64_t{1} << bits) - 1; }

}  // namespace

Shuffle::Shuffle(uint64_t count, uint64_t seed, uint64_t epoch) : count_(count) {
  BF_CHECK(count <= uint64_t{1} << 62) << "a shuffle of " << count;
  const int bits = count < 2 ? 0 : std::bit_width(count - 1);
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
  for (int i = 0; i < kRounds; ++i)
    keys_[static_cast<size_t>(i)] =
        random_u64(seed, kShuffleStream, epoch * kRounds + static_cast<uint64_t>(i));
}

// The halves trade places each round; their widths do too, so nothing is lost when they differ by a bit.
uint64_t Shuffle::network(uint64_t value) const {
  uint64_t low = value & mask(low_bits_);
  uint64_t high = value >> low_bits_;
  int low_bits = low_bits_, high_bits = high_bits_;
  for (const uint64_t key : keys_) {
    const uint64_t next = (high ^ mix(low + key)) & mask(high_bits);
    high = low;
    low = next;
    std::swap(low_bits, high_bits);
  }
  return high << low_bits | low;
}

uint64_t Shuffle::operator[](uint64_t place) const {
  BF_CHECK(place < count_) << "place " << place << " of a shuffle of " << count_;
  if (count_ == 1) return 0;
  do place = network(place);
  while (place >= count_);
  return place;
}

}  // namespace butterfly::train
