// Brings back beginnings of texts from a PrefixStore while their requests wait, and puts them there at the
// end.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "runtime/engine/chain.h"
#include "runtime/engine/prefix_store.h"
#include "runtime/engine/scheduler.h"

namespace butterfly::runtime {

// A thread reads and checks files, ahead by a bounded number of bytes; the engine's thread copies them into
// the cache, a few between two steps, so that running texts are held up for milliseconds at most. A request
// waits for its own pages only, and not longer than kWaitMax; whatever is missing is computed.
//
// begin() is called with the engine's mutex, the rest by the engine's thread.
class PrefixRestore {
 public:
  static constexpr Duration kWaitMax = std::chrono::seconds(60);

  // `on_ready`: pages are to be taken; called by the reading thread.
  PrefixRestore(std::shared_ptr<PrefixStore> store, std::function<void()> on_ready);
  ~PrefixRestore();

  // The pages of this waiting text that the store has and the cache has not are on their way: then the
  // scheduler holds it back. `root`: of it in the store; `stored`: PrefixStore::usable() behind that.
  void begin(RequestId id, const PrefixStore::Name& root, size_t stored, TimePoint now, Scheduler& scheduler);
  // Something is to be done by take().
  bool ready() const;
  // Copies what has come, up to a bound, and lets requests go that have all of theirs, or are over, or have
  // waited too long. `mutex` is the scheduler's, held while that is asked and not while bytes move.
  void take(TimePoint now, std::mutex& mutex, Scheduler& scheduler, CachePages& pages);
  bool busy() const { return waiting_count_ > 0; }
  // Tokens that were brought back so far. With the mutex.
  uint64_t restored_tokens() const { return restored_tokens_; }

  // All published pages go to the store, the most recently used first, as far as it takes them.
  // `adapters`: may be null.
  static void save(PrefixStore& store, const Scheduler& scheduler, const CachePages& pages,
                   const AdapterTable* adapters);

 private:
  struct Job {
    RequestId id;
    std::vector<PrefixStore::Name> names;  // of all pages up to the last one wanted
    std::vector<int32_t> tokens;
    size_t first = 0;  // page to read
    std::shared_ptr<std::atomic<bool>> dropped;
  };
  struct Loaded {
    RequestId id;
    size_t block = 0;
    PrefixStore::Page page;  // without parts: there is no more
  };
  struct Waiting {
    TimePoint since{};
    std::optional<PagePool::NodeId> node;  // behind the last one adopted
    std::vector<Scheduler::Adopted> adopted;
    size_t pages = 0;  // of the beginning that comes back, with those that were here
    size_t fresh = 0;
    bool given_up = false;  // what still comes is not taken
    std::shared_ptr<std::atomic<bool>> dropped = std::make_shared<std::atomic<bool>>(false);
  };
  void run();
  bool hand_over(Loaded loaded);
  void let_go(RequestId id, Waiting& waiting, Scheduler& scheduler);
  void give_up(RequestId id, Waiting& waiting, Scheduler& scheduler);

  const std::shared_ptr<PrefixStore> store_;
  const std::function<void()> on_ready_;
  std::unordered_map<RequestId, Waiting> waiting_;  // with the engine's mutex
  std::atomic<size_t> waiting_count_{0};
  uint64_t restored_tokens_ = 0;
  size_t page_positions_ = 0;

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::deque<Loaded> loaded_;
  size_t loaded_bytes_ = 0;
  bool stopping_ = false;
  std::thread thread_;  // from the first job on
};

}  // namespace butterfly::runtime
