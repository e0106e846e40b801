// A whole model that the members of one stage share: a chain of one stage, as its first member drives it.
#pragma once
#include <atomic>
#include <memory>

#include "runtime/chain/chain_options.h"
#include "runtime/chain/stage_group.h"
#include "runtime/engine/paged_layers.h"

namespace butterfly::runtime {

// As LocalChain: computes in receive(), on the caller's thread and the pool. The other members run a
// StageRunner each. A member that is lost ends the chain: everything returns kPeerLost from then on. Borrows
// model and what computes.
class GroupChain final : public Chain {
 public:
  // BF_CHECKs that the model is the first member's share of all layers.
  GroupChain(const LoadedModel& model, Compute& compute, const ChainOptions& options,
             std::shared_ptr<StageGroup> group);
  ~GroupChain() override;  // close()

  const ChainInfo& info() const override { return layers_.info(); }
  Status submit(const StepRequest& request) override;
  StepResult receive(Duration timeout) override;
  Status reset(uint64_t epoch, Duration timeout) override;
  Result<std::optional<CacheReport>> resume(uint64_t epoch, std::span<const PageClaim> claims,
                                            Duration timeout) override;
  void for_each(size_t count, FunctionRef<void(size_t)> fn) override { layers_.for_each(count, fn); }
  void close() override;

 private:
  Status begin_epoch(uint64_t epoch, uint64_t step, std::span<const std::byte> body);
  Status lost(const Status& status);

  PagedLayers layers_;
  const ChainOptions options_;
  const std::shared_ptr<StageGroup> group_;
  uint64_t epoch_ = 0;
  bool under_way_ = false;
  uint64_t step_ = 0;  // under way
  Status lost_;        // ok while the chain works
  std::atomic<bool> closed_{false};
  std::vector<std::byte> header_;
};

}  // namespace butterfly::runtime
