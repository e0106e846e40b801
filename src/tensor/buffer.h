// Memory with an owner. Copies of a Buffer share it; the memory goes back when the last one dies.
#pragma once
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>

namespace butterfly {

class MappedFile;

inline constexpr size_t kAlignment = 64;  // of every allocated buffer: a cache line, and the widest vector

// What all copies of one Buffer share. Whoever makes one says how it ends; TensorPool keeps and reuses them,
// which is why this is not a shared_ptr: a pool hit allocates nothing.
struct BufferBlock {
  std::atomic<uint32_t> uses{1};
  bool writable = true;
  std::byte* data = nullptr;
  size_t size = 0;
  void (*release)(BufferBlock*) = nullptr;  // called once, by the thread that drops the last use
};

// A shared handle to 64-byte aligned bytes (allocated or pooled), or to part of a mapped file (aligned as the
// file is).
//
// Copies may be made and dropped in any thread; one Buffer object is not for two threads at once, as with
// shared_ptr.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer& other) : block_(other.block_), data_(other.data_) {
    if (block_ != nullptr) block_->uses.fetch_add(1, std::memory_order_relaxed);
  }
  Buffer(Buffer&& other) noexcept
      : block_(std::exchange(other.block_, nullptr)), data_(std::exchange(other.data_, nullptr)) {}
  Buffer& operator=(Buffer other) noexcept {
    std::swap(block_, other.block_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~Buffer() {
    if (block_ != nullptr) drop();
  }

  // Zeroed memory. Large ones (>= 4 MiB) ask for huge pages. Throws Error kOutOfMemory.
  static Buffer allocate(size_t bytes);
  // Part of a mapped file; keeps the mapping alive. Must not be written. BF_CHECKs the range.
  static Buffer mapped(std::shared_ptr<MappedFile> file, size_t offset, size_t bytes);
  // Foreign memory, given back by `release` when the last copy dies.
  static Buffer adopt(std::byte* data, size_t bytes, std::function<void(std::byte*)> release);
  // Takes over one use of `block`. For those who make blocks.
  static Buffer from_block(BufferBlock* block);

  std::byte* data() const { return data_; }
  size_t size() const { return block_ == nullptr ? 0 : block_->size; }
  bool writable() const { return block_ != nullptr && block_->writable; }
  explicit operator bool() const { return block_ != nullptr; }
  std::span<std::byte> bytes() const { return {data_, size()}; }
  // Exact only while no other thread copies or drops.
  long use_count() const { return block_ == nullptr ? 0 : block_->uses.load(std::memory_order_relaxed); }

 private:
  void drop() {
    // The last owner needs no atomic subtraction: nobody else is left to race with.
    if (block_->uses.load(std::memory_order_acquire) == 1 ||
        block_->uses.fetch_sub(1, std::memory_order_acq_rel) == 1)
      block_->release(block_);
  }

  BufferBlock* block_ = nullptr;
  std::byte* data_ = nullptr;  // block_->data, one load nearer
};

}  // namespace butterfly
