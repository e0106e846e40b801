#include "tensor/huge_pages.h"

#include <sys/mman.h>

#include <algorithm>
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
// Work starts when nothing was allocated for this long: a model that loads is filled first.
constexpr auto kQuiet = milliseconds(300);
// ... or when the oldest range has waited for this long.
constexpr auto kWaitMax = milliseconds(5000);
// The thread rests this many times as long as it worked.
constexpr int kRest = 3;

Policy policy_from_environment() {
  const char* value = std::getenv("BUTTERFLY_HUGE_PAGES");
  const std::string_view word = value == nullptr ? "" : value;
  return word == "now"     ? Policy::kNow
         : word == "later" ? Policy::kLater
         : word == "off"   ? Policy::kOff
                           : Policy::kAsked;
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
    last_added_ = Clock::now();
    if (ranges_.empty()) first_added_ = last_added_;
    ranges_[data] = {.bytes = bytes, .done = 0};
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
      if (const auto start = std::min(last_added_ + kQuiet, first_added_ + kWaitMax);
          !urgent() && Clock::now() < start) {
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
  Clock::time_point first_added_, last_added_;
  size_t waiters_ = 0;
  bool running_ = false;
};

// Never destroyed: buffers may die after main() ends.
Settler& settler() {
  static auto* const only = new Settler;
  return *only;
}

// Whether the system turns small pages into huge ones when asked. Of no bytes it says only if it knows the
// word.
bool later_is_possible() {
  static const bool answer = madvise(nullptr, 0, MADV_COLLAPSE) == 0;
  return answer;
}

}  // namespace

void choose(Policy chosen) { policy() = chosen; }

void prepare(std::byte* data, size_t bytes, When when) {
  const Policy chosen = policy().load(std::memory_order_relaxed);
  if (chosen == Policy::kOff) return;
  const bool later = chosen == Policy::kLater || (chosen == Policy::kAsked && when == When::kLater);
  if (later && later_is_possible()) return settler().add(data, bytes);
  madvise(data, bytes, MADV_HUGEPAGE);  // a wish: small pages work too
}

void forget(const std::byte* data) { settler().remove(data); }

bool wait_settled(milliseconds deadline) { return settler().wait(deadline); }

}  // namespace butterfly::huge_pages
