// Counts operator new of the whole test program, to show that hot paths do not allocate. Only for tests.
#pragma once
#include <cstddef>

namespace butterfly::testing {

// Allocations so far, in all threads. Test programs that use this list testing/count_allocations.cc.
size_t allocation_count();

}  // namespace butterfly::testing
