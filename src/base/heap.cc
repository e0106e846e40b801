#include "base/heap.h"

#include <malloc.h>

#include <algorithm>

#include "base/cpu.h"

namespace butterfly {

void bound_heap() {
#ifdef __GLIBC__
  constexpr int kLarge = 4 << 20;
  mallopt(M_MMAP_THRESHOLD, kLarge);
  mallopt(M_TRIM_THRESHOLD, 2 * kLarge);
  mallopt(M_ARENA_MAX, static_cast<int>(std::max<size_t>(allowed_cpus().size(), 2)));
#endif
}

void return_free_heap() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

}  // namespace butterfly
