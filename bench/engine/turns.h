// Engines that compute their steps in turns on one thread pool, each by a clock that stands still while
// others compute. A machine whose speed changes from second to second changes it for all of them alike, so
// their ratio is good to a percent where two runs one after the other differ by ten.
#pragma once
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/engine/local_chain.h"

namespace butterfly::bench {

// Whose turn it is: round and round among those that have not left. Thread-safe.
class Turns {
 public:
  explicit Turns(size_t parties) : here_(parties, true) {}

  void take(size_t party) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return next_ == party; });
  }
  void pass(size_t party) {
    std::lock_guard lock(mutex_);
    if (next_ == party) advance();
  }
  void leave(size_t party) {
    std::lock_guard lock(mutex_);
    here_[party] = false;
    if (next_ == party) advance();
  }

 private:
  void advance() {
    for (size_t i = 1; i <= here_.size(); ++i) {
      const size_t other = (next_ + i) % here_.size();
      if (!here_[other]) continue;
      next_ = other;
      break;
    }
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> here_;
  size_t next_ = 0;
};

// The machine's clock without the time spent waiting for a turn.
class TurnClock final : public Clock {
 public:
  TimePoint now() const override { return SystemClock::instance().now() - Duration(waited_.load()); }
  void sleep_until(TimePoint until) override {
    SystemClock::instance().sleep_until(until + Duration(waited_.load()));
  }
  void add_wait(Duration time) { waited_ += time.count(); }

 private:
  std::atomic<int64_t> waited_ = 0;  // nanoseconds
};

class TurnChain final : public runtime::Chain {
 public:
  TurnChain(std::unique_ptr<runtime::Chain> chain, Turns& turns, size_t party, TurnClock& clock)
      : chain_(std::move(chain)), turns_(turns), party_(party), clock_(clock) {}
  const runtime::ChainInfo& info() const override { return chain_->info(); }
  Status submit(const runtime::StepRequest& request) override { return chain_->submit(request); }
  runtime::StepResult receive(Duration timeout) override {
    const TimePoint asked = SystemClock::instance().now();
    turns_.take(party_);
    clock_.add_wait(SystemClock::instance().now() - asked);
    runtime::StepResult result = chain_->receive(timeout);
    turns_.pass(party_);
    return result;
  }
  Status reset(uint64_t epoch, Duration timeout) override { return chain_->reset(epoch, timeout); }
  void for_each(size_t count, FunctionRef<void(size_t)> fn) override { chain_->for_each(count, fn); }
  void close() override { chain_->close(); }

 private:
  std::unique_ptr<runtime::Chain> chain_;
  Turns& turns_;
  const size_t party_;
  TurnClock& clock_;
};

}  // namespace butterfly::bench
