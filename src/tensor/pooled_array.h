// A growing array of plain values in pooled memory.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "base/checked.h"
#include "tensor/process_pool.h"

namespace butterfly {

// As std::vector, for values that need no construction; its memory comes from process_pool() and goes back
// there, so arrays that come and go (one a message, one a batch) cost no system call. 64-byte aligned.
// resize() keeps what is there and leaves the rest with whatever the memory held before: who resizes fills.
// Moves, and is not copied by accident. One thread at a time, as std::vector.
template <typename T>
class PooledArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  using value_type = T;
  using const_iterator = const T*;

  PooledArray() = default;
  explicit PooledArray(size_t size) { resize(size); }
  PooledArray(PooledArray&& other) noexcept
      : buffer_(std::move(other.buffer_)), size_(std::exchange(other.size_, 0)) {}
  PooledArray& operator=(PooledArray&& other) noexcept {
    buffer_ = std::move(other.buffer_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  // Throws Error kOutOfMemory, also for a size beyond any memory.
  void resize(size_t size) {
    const size_t bytes = checked_mul(size, sizeof(T)).value_or(SIZE_MAX);
    if (bytes > buffer_.size()) {
      Buffer larger = process_pool().allocate(bytes);
      if (size_ > 0) std::memcpy(larger.data(), buffer_.data(), size_ * sizeof(T));
      buffer_ = std::move(larger);
    }
    size_ = size;
  }
  void clear() { size_ = 0; }
  void assign(std::span<const T> values) {
    resize(values.size());
    std::copy(values.begin(), values.end(), data());
  }

  T* data() { return reinterpret_cast<T*>(buffer_.data()); }
  const T* data() const { return reinterpret_cast<const T*>(buffer_.data()); }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }

  friend bool operator==(const PooledArray& a, std::span<const T> b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  Buffer buffer_;
  size_t size_ = 0;
};

}  // namespace butterfly
