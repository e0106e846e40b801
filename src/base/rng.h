// Counter-based random numbers: value = f(key, counter), so any element can be drawn alone, in any order, on
// any machine.
#pragma once
#include <array>
#include <cstdint>

namespace butterfly {

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// Draws keyed by (seed, stream, index). No state: the same arguments give the same bits everywhere.
uint64_t random_u64(uint64_t seed, uint64_t stream, uint64_t index);
// Uniform in [0, 1) with 24 random bits.
float random_uniform(uint64_t seed, uint64_t stream, uint64_t index);
// Approximately standard normal: sum of uniforms (Irwin-Hall, 12 terms), exact arithmetic only.
float random_normal(uint64_t seed, uint64_t stream, uint64_t index);

}  // namespace butterfly
