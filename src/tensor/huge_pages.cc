#include "tensor/huge_pages.h"

#include <sys/mman.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>
#include <thread>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // Linux 6.1
#endif

namespace butterfly::huge_pages {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr size_t kHugePage = size_t{2} << 20;
// Clearing 2 MiB takes 0.1 to 0.3 ms.
constexpr auto kColdTouch = milliseconds(1);
// How long huge pages are believed to stay as they were found. Trying cold ones costs 10 ms; trying warm ones
// costs nothing but memory that may never be used.
constexpr auto kColdFor = milliseconds(60000), kWarmFor = milliseconds(10);
// Work starts when nothing was allocated for this long: a model that loads is filled first.
constexpr auto kQuiet = milliseconds(300);
// The thread rests this many times as long as it worked.
constexpr int kRest = 3;

Policy policy_from_environment() {
  const char* value = std::getenv("BUTTERFLY_HUGE_PAGES");
  const std::string_view word = value == nullptr ? "" : value;
  return word == "now"     ? Policy::kNow
         : word == "later" ? Policy::kLater
         : word == "off"   ? Policy::kOff
                           : Policy::kAuto;
}
std::atomic<Policy>& policy() {
  static std::atomic<Policy> chosen = policy_from_environment();
  return chosen;
}

// Ranges that wait for huge pages, and the thread that makes them. The thread ends when none is left.
class Settler {
 public:
  void add(std::byte* data, size_t bytes) {
    const std::lock_guard lock(mutex_);
    ranges_[data] = {.bytes = bytes, .done = 0};
    last_added_ = Clock::now();
    if (!running_) {
      running_ = true;
      std::thread([this] { work(); }).detach();
    }
  }

  void remove(const std::byte* data) {
    const std::lock_guard lock(mutex_);
    if (const auto it = ranges_.find(const_cast<std::byte*>(data)); it != ranges_.end()) ranges_.erase(it);
  }

  bool wait(milliseconds deadline) {
    std::unique_lock lock(mutex_);
    ++waiters_;
    changed_.notify_all();
    const bool settled = changed_.wait_for(lock, deadline, [&] { return !running_ || ranges_.empty(); });
    --waiters_;
    return settled;
  }

 private:
  struct Range {
    size_t bytes;
    size_t done;
  };

  // One huge page, under the lock: nobody can unmap it meanwhile.
  void step() {
    const auto it = ranges_.begin();
    auto& [data, range] = *it;
    // Fails where nothing was written yet, and where the system has no huge page: small ones work too.
    madvise(data + range.done, kHugePage, MADV_COLLAPSE);
    range.done += kHugePage;
    if (range.done + kHugePage <= range.bytes) return;
    madvise(data, range.bytes, MADV_HUGEPAGE);  // for what will be touched later
    ranges_.erase(it);
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (!ranges_.empty()) {
      const auto urgent = [&] { return waiters_ > 0; };
      if (const auto start = last_added_ + kQuiet; !urgent() && Clock::now() < start) {
        changed_.wait_until(lock, start, urgent);
        continue;
      }
      const auto begin = Clock::now();
      step();
      if (urgent()) {
        lock.unlock();  // lets remove() in
        std::this_thread::yield();
        lock.lock();
      } else {
        changed_.wait_for(lock, (Clock::now() - begin) * kRest, urgent);
      }
    }
    running_ = false;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::byte*, Range> ranges_;
  Clock::time_point last_added_;
  size_t waiters_ = 0;
  bool running_ = false;
};

// Never destroyed: buffers may die after main() ends.
Settler& settler() {
  static auto* const only = new Settler;
  return *only;
}

// What the last touches of fresh huge pages told.
class Weather {
 public:
  // Whether fresh huge pages are slow now. Tries the first two of `data` when it is not known.
  bool cold(std::byte* data) {
    if (Clock::now().time_since_epoch().count() < known_until_.load(std::memory_order_relaxed))
      return cold_.load(std::memory_order_relaxed);
    madvise(data, 2 * kHugePage, MADV_HUGEPAGE);
    const bool slow = touch(data) + touch(data + kHugePage) > 2 * kColdTouch;
    // Later is possible where the system can turn small pages into huge ones when asked (Linux 6.1): then
    // this succeeds for a page that is huge already.
    cold_ = slow && madvise(data, kHugePage, MADV_COLLAPSE) == 0;
    known_until_ = (Clock::now() + (cold_ ? kColdFor : kWarmFor)).time_since_epoch().count();
    return cold_;
  }

 private:
  static Clock::duration touch(std::byte* data) {
    const auto begin = Clock::now();
    *static_cast<volatile std::byte*>(data) = std::byte{0};
    return Clock::now() - begin;
  }
  std::atomic<bool> cold_{false};
  std::atomic<Clock::rep> known_until_{0};
};
Weather& weather() {
  static Weather only;
  return only;
}

}  // namespace

void choose(Policy chosen) { policy() = chosen; }

void prepare(std::byte* data, size_t bytes) {
  switch (policy().load(std::memory_order_relaxed)) {
    case Policy::kOff:
      return;
    case Policy::kLater:
      return settler().add(data, bytes);
    case Policy::kNow:
      madvise(data, bytes, MADV_HUGEPAGE);  // a wish: small pages work too
      return;
    case Policy::kAuto:
      break;
  }
  if (weather().cold(data)) return settler().add(data, bytes);
  madvise(data, bytes, MADV_HUGEPAGE);
}

void forget(const std::byte* data) { settler().remove(data); }

bool wait_settled(milliseconds deadline) { return settler().wait(deadline); }

}  // namespace butterfly::huge_pages
