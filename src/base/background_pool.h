// Threads for work beside the steps of an engine: reading, hashing, packing.
#pragma once
#include <chrono>

#include "base/thread_pool.h"

namespace butterfly {

// A pool has one owner at a time, and the owner of an engine's is the engine: whatever else needs several
// threads makes some for as long as it takes. They neither spin nor hold a CPU of their own.
inline ThreadPool background_pool(size_t threads) {
  return ThreadPool({.threads = threads, .pin = false, .spin = std::chrono::microseconds(0)});
}

}  // namespace butterfly
