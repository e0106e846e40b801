#include "tensor/tensor_pool.h"

#include <array>
#include <atomic>
#include <bit>
#include <memory>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "tensor/memory.h"

namespace butterfly {
namespace {

// Up to 512 bytes classes are multiples of the alignment; beyond, (2^k, 2^(k+1)] has eight steps of 2^k / 8.
constexpr uint64_t kLinearMax = 8 * kAlignment;
constexpr int kLinearMaxLog2 = 9;
static_assert(uint64_t{1} << kLinearMaxLog2 == kLinearMax);
constexpr uint64_t kBytesLimit = uint64_t{1}
                                 << 48;  // beyond any address space: sizes are refused before rounding
constexpr size_t kClasses = 8 + 8 * (48 - kLinearMaxLog2);

size_t class_index(uint64_t bytes) {
  if (bytes <= kLinearMax) return bytes == 0 ? 0 : static_cast<size_t>((bytes - 1) / kAlignment);
  const int log2 = std::bit_width(bytes - 1) - 1;  // 2^log2 < bytes <= 2^(log2 + 1)
  const uint64_t step = (bytes - 1) >> (log2 - 3) & 7;
  return 8 + 8 * static_cast<size_t>(log2 - kLinearMaxLog2) + static_cast<size_t>(step);
}

uint64_t bytes_of_class(size_t index) {
  if (index < 8) return (index + 1) * kAlignment;
  const size_t log2 = kLinearMaxLog2 + (index - 8) / 8;
  return (8 + (index - 8) % 8 + 1) << (log2 - 3);
}

constexpr size_t kShards = 16;

// Threads take shards in turn, so that up to kShards threads do not meet.
size_t shard_of_this_thread() {
  static std::atomic<size_t> next{0};
  thread_local const size_t mine = next.fetch_add(1, std::memory_order_relaxed) % kShards;
  return mine;
}

}  // namespace

// Idle buffers wait in per-thread shards with a lock each; only the byte counts are shared by all threads.
//
// Lives until the pool and the last buffer are gone: in_use_ holds the bytes of buffers that are out
// (multiples of 64) plus kPoolAlive. Whoever brings it to zero deletes the Impl, so no separate reference
// count is touched per hit.
struct TensorPool::Impl {
  struct Block : BufferBlock {
    Impl* pool = nullptr;
    Block* next = nullptr;  // while idle
    size_t class_index = 0;
  };
  struct alignas(64) Shard {
    std::mutex mutex;
    uint64_t hits = 0;
    uint64_t misses = 0;
    std::array<Block*, kClasses> idle{};

    Block* pop(size_t index) {
      Block* block = idle[index];
      if (block != nullptr) idle[index] = block->next;
      return block;
    }
    void push(Block* block) {
      block->next = idle[block->class_index];
      idle[block->class_index] = block;
    }
  };
  static constexpr uint64_t kPoolAlive = 1;

  explicit Impl(const Options& options) : options_(options) {}
  ~Impl() { trim(); }

  Buffer allocate(size_t bytes);
  void reserve(size_t bytes, uint64_t rounded);
  Block* take_idle(size_t index);
  Block* make(size_t bytes, size_t index);
  void take_back(Block* block);
  bool keep(Block* block, uint64_t bytes);
  bool make_room(uint64_t bytes, size_t but_not_class);
  void trim();
  void drop(uint64_t bytes) {
    if (in_use_.fetch_sub(bytes, std::memory_order_acq_rel) == bytes) delete this;
  }
  static void free_block(Block* block) {
    const uint64_t bytes = bytes_of_class(block->class_index);
    permit_access(block->data, bytes);
    free_memory(block->data, bytes);
    delete block;
  }

  const Options options_;
  std::array<Shard, kShards> shards_;
  alignas(64) std::atomic<uint64_t> in_use_{kPoolAlive};
  std::atomic<uint64_t> idle_{0};
  alignas(64) std::atomic<uint64_t> in_use_max_{0};
  std::atomic<bool> closed_{false};
};

// Counts the bytes as in use, or throws.
void TensorPool::Impl::reserve(size_t bytes, uint64_t rounded) {
  const uint64_t now = in_use_.fetch_add(rounded, std::memory_order_relaxed) + rounded - kPoolAlive;
  if (now > options_.bytes_max) {
    drop(rounded);
    fail(Errc::kOutOfMemory, "[pool] {} bytes asked for with {} in use, the bound is {}", bytes,
         now - rounded, options_.bytes_max);
  }
  uint64_t seen = in_use_max_.load(std::memory_order_relaxed);
  while (now > seen && !in_use_max_.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
  }
}

// From this thread's shard, else from any other. Counts the hit or miss.
TensorPool::Impl::Block* TensorPool::Impl::take_idle(size_t index) {
  const size_t mine = shard_of_this_thread();
  {
    Shard& shard = shards_[mine];
    const std::lock_guard lock(shard.mutex);
    if (Block* block = shard.pop(index)) {
      ++shard.hits;
      return block;
    }
  }
  for (size_t i = 1; i < kShards; ++i) {
    Shard& shard = shards_[(mine + i) % kShards];
    const std::lock_guard lock(shard.mutex);
    if (Block* block = shard.pop(index)) {
      ++shard.hits;
      return block;
    }
  }
  const std::lock_guard lock(shards_[mine].mutex);
  ++shards_[mine].misses;
  return nullptr;
}

TensorPool::Impl::Block* TensorPool::Impl::make(size_t bytes, size_t index) {
  const uint64_t rounded = bytes_of_class(index);
  auto block = std::make_unique<Block>();
  block->data = allocate_memory(rounded, Contents::kAnything);
  if (block->data == nullptr) {
    trim();  // idle memory of other classes may be all that stands in the way
    block->data = allocate_memory(rounded, Contents::kAnything);
  }
  if (block->data == nullptr) {
    drop(rounded);
    fail(Errc::kOutOfMemory, "[pool] the system has no {} bytes of memory to give", bytes);
  }
  block->pool = this;
  block->class_index = index;
  block->release = [](BufferBlock* self) {
    auto* pooled = static_cast<Block*>(self);
    pooled->pool->take_back(pooled);
  };
  return block.release();
}

Buffer TensorPool::Impl::allocate(size_t bytes) {
  if (bytes > kBytesLimit)
    fail(Errc::kOutOfMemory, "[pool] {} bytes asked for, more than can be addressed", bytes);
  const size_t index = class_index(bytes);
  const uint64_t rounded = bytes_of_class(index);
  reserve(bytes, rounded);
  Block* block = take_idle(index);
  if (block != nullptr) {
    idle_.fetch_sub(rounded, std::memory_order_relaxed);
    permit_access(block->data, rounded);
    block->uses.store(1, std::memory_order_relaxed);
  } else {
    block = make(bytes, index);
  }
  block->size = bytes;
  forbid_access(block->data + bytes, rounded - bytes);
  return Buffer::from_block(block);
}

// Frees idle buffers of other classes until `bytes` more fit. False if that is not enough. Without this,
// sizes that are not used any more would fill the pool for ever.
bool TensorPool::Impl::make_room(uint64_t bytes, size_t but_not_class) {
  for (Shard& shard : shards_) {
    for (size_t index = 0; index < kClasses; ++index) {
      while (index != but_not_class) {
        if (idle_.load(std::memory_order_relaxed) + bytes <= options_.idle_bytes_max) return true;
        Block* block = nullptr;
        {
          const std::lock_guard lock(shard.mutex);
          block = shard.pop(index);
        }
        if (block == nullptr) break;
        idle_.fetch_sub(bytes_of_class(index), std::memory_order_relaxed);
        free_block(block);
      }
    }
  }
  return idle_.load(std::memory_order_relaxed) + bytes <= options_.idle_bytes_max;
}

// Reserves idle room first, so that the bound holds however many threads give back at once.
bool TensorPool::Impl::keep(Block* block, uint64_t bytes) {
  if (closed_.load(std::memory_order_acquire) || bytes > options_.idle_bytes_max) return false;
  while (idle_.fetch_add(bytes, std::memory_order_relaxed) + bytes > options_.idle_bytes_max) {
    idle_.fetch_sub(bytes, std::memory_order_relaxed);
    if (!make_room(bytes, block->class_index)) return false;
  }
  forbid_access(block->data, bytes);
  Shard& shard = shards_[shard_of_this_thread()];
  const std::lock_guard lock(shard.mutex);
  shard.push(block);
  return true;
}

void TensorPool::Impl::take_back(Block* block) {
  const uint64_t bytes = bytes_of_class(block->class_index);
  if (!keep(block, bytes)) free_block(block);
  drop(bytes);
}

void TensorPool::Impl::trim() {
  for (Shard& shard : shards_) {
    std::array<Block*, kClasses> idle;
    {
      const std::lock_guard lock(shard.mutex);
      idle = std::exchange(shard.idle, {});
    }
    for (Block* block : idle) {
      while (block != nullptr) {
        Block* next = block->next;
        idle_.fetch_sub(bytes_of_class(block->class_index), std::memory_order_relaxed);
        free_block(block);
        block = next;
      }
    }
  }
}

TensorPool::TensorPool(Options options) : impl_(new Impl(options)) {}

TensorPool::~TensorPool() {
  impl_->closed_.store(true, std::memory_order_release);
  impl_->trim();
  impl_->drop(Impl::kPoolAlive);
}

Buffer TensorPool::allocate(size_t bytes) { return impl_->allocate(bytes); }

Tensor TensorPool::tensor(DType dtype, Shape shape) {
  const auto count = shape.checked_count();
  const auto bytes = count ? dtype_bytes(dtype, static_cast<uint64_t>(*count)) : std::nullopt;
  if (!bytes)
    fail(Errc::kInvalidArgument, "[pool] {} {}: not a whole number of blocks, or too large to count",
         dtype_name(dtype), shape.to_string());
  return Tensor(allocate(*bytes), dtype, shape);
}

TensorPool::Stats TensorPool::stats() const {
  Stats stats;
  for (Impl::Shard& shard : impl_->shards_) {
    const std::lock_guard lock(shard.mutex);
    stats.hits += shard.hits;
    stats.misses += shard.misses;
  }
  stats.bytes_in_use = impl_->in_use_.load(std::memory_order_relaxed) - Impl::kPoolAlive;
  stats.bytes_idle = impl_->idle_.load(std::memory_order_relaxed);
  stats.bytes_in_use_max = impl_->in_use_max_.load(std::memory_order_relaxed);
  return stats;
}

void TensorPool::trim() { impl_->trim(); }

uint64_t TensorPool::class_bytes(uint64_t bytes) {
  BF_CHECK(bytes <= kBytesLimit) << bytes;
  return bytes_of_class(class_index(bytes));
}

}  // namespace butterfly
