// Memory with an owner. Copies of a Buffer share it; the memory goes back when the last one dies.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>

namespace butterfly {

class MappedFile;

inline constexpr size_t kAlignment = 64;  // of every allocated buffer: a cache line, and the widest vector

// A shared handle to 64-byte aligned bytes (allocated or pooled), or to part of a mapped file (aligned as the
// file is).
class Buffer {
 public:
  Buffer() = default;

  // Zeroed memory. Large ones (>= 4 MiB) ask for huge pages. Throws Error kOutOfMemory.
  static Buffer allocate(size_t bytes);
  // Part of a mapped file; keeps the mapping alive. Must not be written. BF_CHECKs the range.
  static Buffer mapped(std::shared_ptr<MappedFile> file, size_t offset, size_t bytes);
  // Foreign memory, given back by `release` when the last copy dies. Used by TensorPool.
  static Buffer adopt(std::byte* data, size_t bytes, std::function<void(std::byte*)> release);

  std::byte* data() const { return data_.get(); }
  size_t size() const { return size_; }
  bool writable() const { return writable_; }
  explicit operator bool() const { return data_ != nullptr; }
  std::span<std::byte> bytes() const { return {data(), size_}; }
  long use_count() const { return data_.use_count(); }

 private:
  std::shared_ptr<std::byte> data_;
  size_t size_ = 0;
  bool writable_ = false;
};

}  // namespace butterfly
