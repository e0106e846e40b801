// Reuses buffers so that hot paths do not call the system allocator.
#pragma once
#include <cstdint>

#include "tensor/tensor.h"

namespace butterfly {

// Thread-safe. Size classes are eight per power of two, so a buffer is at most 12.5 % larger than asked for
// (below 512 bytes: rounded up to the 64-byte alignment).
//
// A buffer returns to the pool when its last Tensor or Buffer dies, from any thread, also after the pool is
// gone (then it is freed). Idle memory is bounded by `idle_bytes_max`; memory in use by `bytes_max`
// (kOutOfMemory beyond).
class TensorPool {
 public:
  struct Options {
    uint64_t bytes_max = UINT64_MAX;
    uint64_t idle_bytes_max = uint64_t{256} << 20;
  };
  struct Stats {
    uint64_t hits = 0;
    uint64_t misses = 0;
    uint64_t bytes_in_use = 0;
    uint64_t bytes_idle = 0;
    uint64_t bytes_in_use_max = 0;  // high-water mark
    double hit_rate() const { return hits + misses == 0 ? 0 : double(hits) / double(hits + misses); }
  };

  TensorPool() : TensorPool(Options{}) {}
  explicit TensorPool(Options options);
  ~TensorPool();
  TensorPool(const TensorPool&) = delete;
  TensorPool& operator=(const TensorPool&) = delete;

  Buffer allocate(size_t bytes);  // contents are whatever was there before
  Tensor tensor(DType dtype, Shape shape);
  Stats stats() const;
  void trim();  // frees idle buffers

  // The class size for `bytes`: smallest >= bytes. Exposed for tests.
  static uint64_t class_bytes(uint64_t bytes);

 private:
  struct Impl;
  Impl* const impl_;  // deletes itself when the pool and its last buffer are gone
};

}  // namespace butterfly
