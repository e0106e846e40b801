// A chain as the engine gets it: it can be held between two steps, and it says when it breaks.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "runtime/engine/chain.h"

namespace butterfly::runtime {

// Whether steps may begin. Shared by the chain, which the engine owns, and by whoever holds steps back.
// Thread-safe.
class StepGate {
 public:
  // Steps that are under way end, others wait. `paused` is called once none is under way: here, or on the
  // engine's thread. Not after resume().
  void pause(std::function<void()> paused);
  void resume();
  // Steps inside the chain: begun, and not back.
  size_t under_way() const;

 private:
  friend class GatedChain;
  // The callback that is due, to be called without the lock; empty: none.
  std::function<void()> due();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool holds_ = false, closed_ = false;
  size_t under_way_ = 0;  // steps inside the chain
  std::function<void()> paused_;
};

// While the gate holds, submit() keeps the steps it gets, and receive() first gives the results of those
// under way, then waits. Nothing is lost by a pause that is followed by resume(); close() ends it. Of the
// engine's thread, but for close(); the gate may be used from any.
class GatedChain final : public Chain {
 public:
  // `lost` is called once, on the engine's thread, when the chain turns out to be broken (kPeerLost).
  GatedChain(std::unique_ptr<Chain> chain, std::shared_ptr<StepGate> gate,
             std::function<void(const Status&)> lost);
  ~GatedChain() override;

  const ChainInfo& info() const override { return chain_->info(); }
  Status submit(const StepRequest& request) override;
  StepResult receive(Duration timeout) override;
  void skip() override { chain_->skip(); }
  Status reset(uint64_t epoch, Duration timeout) override;
  Result<std::optional<CacheReport>> resume(uint64_t epoch, std::span<const PageClaim> claims,
                                            Duration timeout) override;
  void for_each(size_t count, FunctionRef<void(size_t)> fn) override { chain_->for_each(count, fn); }
  void close() override;

 private:
  Status pass_on(const StepRequest& request);
  Status pass_on_held(Duration timeout);
  void ended(size_t steps);           // that are not under way any more
  Status report_loss(Status status);  // passes it on; calls lost_ if that is what it says

  const std::unique_ptr<Chain> chain_;
  const std::shared_ptr<StepGate> gate_;
  std::function<void(const Status&)> lost_;
  std::deque<StepRequest> held_;  // at most info().steps_max; of the engine's thread
};

}  // namespace butterfly::runtime
