// A chain of stages on several machines, from the engine's side. The last one is here: it has the head, so
// logits never travel.
#pragma once
#include <atomic>
#include <deque>
#include <memory>
#include <vector>

#include "cluster/transport/link.h"
#include "runtime/chain/chain_options.h"
#include "runtime/chain/chain_times.h"
#include "runtime/chain/stage_group.h"
#include "runtime/chain/step_message.h"
#include "runtime/chain/step_wait.h"

namespace butterfly::runtime {

// Tokens go out to the first stage, rows come back from the last worker and pass the layers that are here;
// these may be the head alone. A token costs rows x dim values per hop, whatever the vocabulary.
//
// Steps are computed in receive(), on the caller's thread and the pool. A link that breaks, or a peer that
// sends what it should not, ends the chain: everything returns kPeerLost from then on, and whoever made the
// chain makes another. Borrows model and pool.
class LinkedChain final : public Chain {
 public:
  // `workers`: stages before this one. `to_first` and `from_last` may be one and the same link: one worker.
  // `times` may be null. `group`: the other members of the last stage, of which this is the first; null: it
  // is alone. Throws Error as StageRunner does.
  LinkedChain(const LoadedModel& model, Compute& compute, size_t workers,
              std::shared_ptr<cluster::Link> to_first, std::shared_ptr<cluster::Link> from_last,
              const ChainOptions& options, std::shared_ptr<ChainTimes> times = nullptr,
              std::shared_ptr<StageGroup> group = nullptr);
  ~LinkedChain() override;  // close()

  const ChainInfo& info() const override { return info_; }
  Status submit(const StepRequest& request) override;
  StepResult receive(Duration timeout) override;
  // Members of a group compute together or not at all: theirs is not skipped.
  void skip() override {
    if (!pending_.empty() && group_ == nullptr) pending_.front().wanted = false;
  }
  // Returns when the reset has passed all stages.
  Status reset(uint64_t epoch, Duration timeout) override;
  Result<std::optional<CacheReport>> resume(uint64_t epoch, std::span<const PageClaim> claims,
                                            Duration timeout) override;
  void for_each(size_t count, FunctionRef<void(size_t)> fn) override { layers_.for_each(count, fn); }
  void close() override;

  uint64_t stale() const { return stale_; }  // messages of older epochs, dropped

 private:
  struct Pending {
    StepRequest request;
    std::vector<std::byte> header;  // as it was sent
    TimePoint submitted;
    Duration send;
    bool wanted = true;
  };
  struct Message {
    cluster::MessageHead head;
    std::vector<std::byte> body;
    StageTimes times;  // of its way in
  };
  Status read_message(Duration timeout, Message& message);
  Status next_message(Duration timeout);
  Status read_rows(const Pending& pending, std::span<const float>& hidden);
  void compute(const Pending& pending, std::span<const float> hidden, StepResult& result);
  Status send_round(uint64_t step, std::span<const std::byte> body, Duration timeout);
  Status begin_round(uint64_t step, std::span<const std::byte> body);
  Status end_round(uint64_t step, Duration timeout);
  // What all stages have of the claims, and could get.
  Result<CacheReport> ask(uint64_t step, std::span<const PageClaim> claims, Duration timeout);
  // The message at hand, to the other members of this stage.
  Status pass_on();
  // The chain is over.
  Status lost(const Status& status);

  PagedLayers layers_;
  ChainInfo info_;
  const size_t workers_;
  const std::shared_ptr<cluster::Link> to_first_, from_last_;
  const ChainOptions options_;
  const ChainLimits limits_;
  const std::shared_ptr<ChainTimes> times_;
  const std::shared_ptr<StageGroup> group_;

  uint64_t epoch_ = 0;
  uint64_t stale_ = 0;
  std::deque<Pending> pending_;  // oldest first, at most info_.steps_max
  Status lost_;                  // ok while the chain works
  std::atomic<bool> closed_{false};
  std::deque<Message> early_;  // taken in before it was asked for; at most one for each pending step
  Message message_;            // at hand,
  StepMessage came_;           // and what it says
  std::vector<float> hidden_;
  StepWait wait_;
  ChainStep step_;
};

}  // namespace butterfly::runtime
