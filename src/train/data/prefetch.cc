#include "train/data/prefetch.h"

#include "base/check.h"
#include "base/mapped_file.h"

namespace butterfly::train {
namespace {

using SteadyClock = std::chrono::steady_clock;

uint64_t ns_since(SteadyClock::time_point start) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(SteadyClock::now() - start).count());
}

}  // namespace

Prefetch::Prefetch(Fill fill, const PrefetchOptions& options)
    : fill_(std::move(fill)),
      options_(options),
      slots_(options.threads == 0 ? 1 : options.depth),
      next_number_(options.begin),
      next_index_(options.begin) {
  BF_CHECK(options.depth > 0) << "a prefetch of depth 0";
  try {
    for (size_t i = 0; i < options.threads; ++i) threads_.emplace_back([this] { work(); });
  } catch (...) {
    stop_.store(true);
    freed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    throw;
  }
}

Prefetch::~Prefetch() {
  stop_.store(true);
  freed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Prefetch::make(uint64_t index, Slot& slot) {
  const auto start = SteadyClock::now();
  slot.error = nullptr;
  try {
    MappedFile::guard([&] { fill_(index, slot.batch); });
  } catch (...) {
    slot.error = std::current_exception();
  }
  made_ns_.fetch_add(ns_since(start), std::memory_order_relaxed);
}

void Prefetch::work() {
  for (;;) {
    const uint64_t index = next_number_.fetch_add(1);
    if (index >= options_.end) return;
    Slot& slot = slot_of(index);
    const uint64_t turn = 2 * round_of(index);
    freed_.wait([&] { return stop_.load() || slot.turn.load() == turn; });
    if (stop_.load()) return;
    make(index, slot);
    slot.turn.store(turn + 1);
    filled_.notify_all();
  }
}

const Batch* Prefetch::next() {
  if (held_ && !threads_.empty()) {
    const uint64_t before = next_index_ - 1;
    slot_of(before).turn.store(2 * round_of(before) + 2);
    freed_.notify_all();  // all: the one thread that wants this slot may not be the one that would be woken
  }
  held_ = false;
  if (next_index_ >= options_.end) return nullptr;
  const uint64_t index = next_index_++;
  Slot& slot = slot_of(index);
  const auto start = SteadyClock::now();
  if (threads_.empty()) {
    make(index, slot);
  } else {
    filled_.wait([&] { return slot.turn.load() == 2 * round_of(index) + 1; });
  }
  waited_ += std::chrono::nanoseconds(ns_since(start));
  ++batches_;
  held_ = true;
  if (slot.error != nullptr) std::rethrow_exception(slot.error);
  return &slot.batch;
}

PrefetchTimes Prefetch::times() const {
  return {batches_, waited_, std::chrono::nanoseconds(made_ns_.load(std::memory_order_relaxed))};
}

}  // namespace butterfly::train
