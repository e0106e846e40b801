// Adam with its moments stored as bf16: half their memory, for weights that stay floats.
//
// The arithmetic is adam_update()'s. Moments are rounded up or down at random with the right mean: rounded to
// nearest, v would stand still, since (1 - beta2) of it is less than half a unit in the last place of bf16.
// The random bits are a function of (key, index) alone, so cuts between threads never show.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/optim/optimizer_update.h"

namespace butterfly::kernels {

// 32 random bits of a place: m takes the lower 16, v the upper 16.
inline constexpr uint32_t kMix0 = 0x9E3779B1u, kMix1 = 0x85EBCA6Bu, kMix2 = 0xC2B2AE35u;
inline uint32_t mix_bits(uint32_t place, uint32_t key) {
  uint32_t h = place * kMix0 ^ key;
  h = (h ^ h >> 16) * kMix1;
  h = (h ^ h >> 13) * kMix2;
  return h ^ h >> 16;
}

// `key` differs from step to step and from array to array. Pointers are to the element `first` of the array:
// a part of it gets the bits that it has when all of it is updated.
void adam_update_bf16(const AdamStep& step, const float* grad, float* param, uint16_t* m, uint16_t* v,
                      size_t count, uint32_t key, ThreadPool& pool, size_t first = 0);

namespace ref {
// Elements [begin, end) behind the pointers.
void adam_update_bf16(const AdamStep& step, const float* grad, float* param, uint16_t* m, uint16_t* v,
                      size_t begin, size_t end, uint32_t key, size_t first = 0);
}  // namespace ref

}  // namespace butterfly::kernels
