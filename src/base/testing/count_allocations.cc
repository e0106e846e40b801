#include "base/testing/count_allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

static std::atomic<size_t> count{0};

void* operator new(size_t bytes) {
  count.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace butterfly::testing {

size_t allocation_count() { return count.load(std::memory_order_relaxed); }

}  // namespace butterfly::testing
