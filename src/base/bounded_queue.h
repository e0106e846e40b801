// A queue of fixed size between any number of threads, without mutexes; idle threads sleep.
#pragma once
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "base/event_count.h"

namespace butterfly {

// A ring whose slots carry sequence numbers (D. Vyukov's bounded MPMC queue): a thread claims a place, and
// the slot's own number says when it may be written or read, so nobody takes a slot that is still being
// filled or emptied. T is moved in and out; it must be default constructible.
//
// Not lock-free in the strict sense: a thread that stops between claiming its place and filling it holds up
// those behind it. push() and pop() sleep while the queue is full or empty.
//
// close() is a mark on the number that pushes claim their places from, so a push has its place before it or
// is refused: what push() said yes to is popped, however close() runs against it. Pops give all of that, also
// what is still being filled, and then nothing.
template <typename T>
class BoundedQueue {
 public:
  // `capacity` is rounded up to a power of two, and to 2: with one slot "filled in this round" and "free in
  // the next one" would be the same number.
  explicit BoundedQueue(size_t capacity)
      : size_(std::bit_ceil(std::max<size_t>(capacity, 2))), slots_(new Slot[size_]) {
    for (size_t i = 0; i < size_; ++i) slots_[i].turn.store(i, std::memory_order_relaxed);
  }

  size_t capacity() const { return size_; }

  // Moves from `item` only on success. False: full, or closed.
  bool try_push(T& item) {
    size_t place = tail_.load(std::memory_order_relaxed);
    for (;;) {
      if ((place & kClosed) != 0) return false;
      Slot& slot = slots_[place & (size_ - 1)];
      const auto ahead = static_cast<ptrdiff_t>(slot.turn.load() - place);
      if (ahead == 0) {
        if (tail_.compare_exchange_weak(place, place + 1, std::memory_order_relaxed)) {
          slot.item = std::move(item);
          slot.turn.store(place + 1);
          not_empty_.notify_one();
          return true;
        }
      } else if (ahead < 0) {
        return false;  // full: the slot still holds what was pushed a round ago
      } else {
        place = tail_.load(std::memory_order_relaxed);
      }
    }
  }

  bool try_pop(T& item) {
    size_t place = head_.load(std::memory_order_relaxed);
    for (;;) {
      Slot& slot = slots_[place & (size_ - 1)];
      const auto ahead = static_cast<ptrdiff_t>(slot.turn.load() - (place + 1));
      if (ahead == 0) {
        if (head_.compare_exchange_weak(place, place + 1, std::memory_order_relaxed)) {
          item = std::move(slot.item);
          slot.turn.store(place + size_);
          not_full_.notify_one();
          if (closed()) not_empty_.notify_all();  // the last one: others need not wait for more
          return true;
        }
      } else if (ahead < 0) {
        return false;
      } else {
        place = head_.load(std::memory_order_relaxed);
      }
    }
  }

  // False after close(): the item was not taken.
  bool push(T item) {
    bool pushed = false;
    not_full_.wait([&] { return (pushed = try_push(item)) || closed(); });
    return pushed;
  }

  // Nothing after close(), once all that was pushed is gone.
  std::optional<T> pop() {
    std::optional<T> item(std::in_place);
    bool popped = false;
    not_empty_.wait([&] { return (popped = try_pop(*item)) || is_over(); });
    if (!popped) item.reset();
    return item;
  }

  // From any thread, any number of times.
  void close() {
    tail_.fetch_or(kClosed);
    not_empty_.notify_all();
    not_full_.notify_all();
  }
  bool closed() const { return (tail_.load() & kClosed) != 0; }

 private:
  static constexpr size_t kClosed = ~(~size_t{0} >> 1);  // more places than that are never claimed
  // Closed, and every claimed place was popped.
  bool is_over() const {
    const size_t tail = tail_.load();
    return (tail & kClosed) != 0 && head_.load() == (tail & ~kClosed);
  }
  struct alignas(64) Slot {
    std::atomic<size_t> turn;
    T item{};
  };
  const size_t size_;
  const std::unique_ptr<Slot[]> slots_;
  alignas(64) std::atomic<size_t> tail_{0};
  alignas(64) std::atomic<size_t> head_{0};
  alignas(64) EventCount not_empty_;
  EventCount not_full_;
};

}  // namespace butterfly
