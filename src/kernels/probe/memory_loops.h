// Memory traffic with next to no arithmetic: what bandwidth limits are measured with.
#pragma once
#include <cstddef>

namespace butterfly::kernels {

// How results are stored: through the caches, or past them.
enum class StoreKind { kPlain, kStream };

// Reads all of it; the value is there so that no compiler leaves the reads out. `count` is a multiple of 64.
float read_memory(const float* from, size_t count);
// Two streams at once, as a dot product reads.
float read_memory2(const float* a, const float* b, size_t count);
// One stream in, one out. Pointers are 64-byte aligned.
void copy_memory(const float* from, float* to, size_t count, StoreKind store);
// Two streams in, one out (their bitwise or).
void merge_memory(const float* a, const float* b, float* to, size_t count, StoreKind store);

}  // namespace butterfly::kernels
