// Weights of logits as whole numbers: exp((logit - largest) / temperature) counted in units of 2^-42.
//
// Whole numbers add up to the same sum in any order. So a row of 150,000 weights may be summed in vectors, in
// pieces, by threads, or only where it matters, and what follows from the sums (which tokens are in, which
// one is drawn) is the same as if someone had sorted all of them and walked along.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

namespace butterfly::kernels {

// A weight is at most 1, and so many of them fit into 64 bits.
inline constexpr int kWeightUnitBits = 42;
inline constexpr size_t kWeightCountMax = size_t{1} << (64 - kWeightUnitBits);

// What makes a weight of a logit. No logit may be above `largest`, which is finite; the temperature is above
// 0.
struct WeightScale {
  float largest = 0;
  float temperature = 1;
};

// Doubles from here to twice this are one unit apart: adding it to a weight rounds to units, and the bits
// count them.
inline constexpr double kUnitMagic = static_cast<double>(uint64_t{1} << (52 - kWeightUnitBits));
inline constexpr uint64_t kUnitMagicBits = std::bit_cast<uint64_t>(kUnitMagic);

// A weight in units, to the nearest, halves to even. `weight` is from 0 to 1.
inline uint64_t weight_units(float weight) {
  return std::bit_cast<uint64_t>(double{weight} + kUnitMagic) - kUnitMagicBits;
}

// weights[i] = exp_f32((logits[i] - largest) / temperature). May be in place.
void weigh_logits(const float* logits, size_t count, WeightScale scale, float* weights);

// The units of all logits that are not below `least`.
uint64_t sum_units(const float* logits, size_t count, float least, WeightScale scale);

// The units of each block of `block` logits; the last one may be shorter.
void sum_unit_blocks(const float* logits, size_t count, size_t block, WeightScale scale, uint64_t* sums);

// The plain loops (ref/weight_units.cc).
namespace ref {
void weigh_logits(const float* logits, size_t count, WeightScale scale, float* weights);
uint64_t sum_units(const float* logits, size_t count, float least, WeightScale scale);
void sum_unit_blocks(const float* logits, size_t count, size_t block, WeightScale scale, uint64_t* sums);
}  // namespace ref

}  // namespace butterfly::kernels
