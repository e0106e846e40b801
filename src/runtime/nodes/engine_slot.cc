#include "runtime/nodes/engine_slot.h"

#include <utility>

namespace butterfly::runtime {
namespace {

// No chain: every step fails with the same status. kPeerLost makes the engine wait for another chain; any
// other one is the requests' end.
class AbsentChain final : public Chain {
 public:
  AbsentChain(const ChainInfo& info, Status why) : info_(info), why_(std::move(why)) {}
  const ChainInfo& info() const override { return info_; }
  Status submit(const StepRequest&) override { return why_; }
  StepResult receive(Duration) override {
    StepResult result;
    result.status = why_;
    return result;
  }
  // The first one is the engine's own start, with which nothing is wrong.
  Status reset(uint64_t, Duration) override {
    return std::exchange(started_, true) && why_.code() == Errc::kPeerLost ? why_ : Status();
  }
  // What other nodes have in their caches is none of its business: whoever waits for another chain keeps its
  // claims.
  Result<std::optional<CacheReport>> resume(uint64_t epoch, std::span<const PageClaim>,
                                            Duration timeout) override {
    started_ = true;
    if (Status status = reset(epoch, timeout); !status) return status;
    return std::optional<CacheReport>();
  }
  void for_each(size_t count, FunctionRef<void(size_t)> fn) override { for_each_in_turn(count, fn); }
  void close() override {}

 private:
  const ChainInfo info_;
  const Status why_;
  bool started_ = false;
};

Status not_ready() { return {Errc::kPeerLost, "the nodes are not ready yet"}; }

// A node that was lost must be noticed, planned around, and its layers loaded elsewhere.
constexpr Duration kChainWaitMax = std::chrono::minutes(2);

// The chain itself says when it breaks, with its epoch; that the engine then waits is all this is for.
void wait_for_another(const Status&) {}

}  // namespace

std::shared_ptr<Engine> EngineSlot::make_engine(const model::Tokenizer* tokenizer, EngineOptions options) {
  options.on_chain_lost = wait_for_another;
  options.chain_wait_max = kChainWaitMax;
  cluster::Epoch gone = 0;
  std::shared_ptr<Engine> engine;
  {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Chain> chain = std::exchange(waiting_, nullptr);
    engine_has_it_ = chain != nullptr;
    if (chain == nullptr) {
      gone = epoch_;  // it went with the engine before
      chain = std::make_unique<AbsentChain>(info_, not_ready());
    }
    engine = std::make_shared<Engine>(std::move(chain), tokenizer, options);
    engine_ = engine;
  }
  if (gone != 0) chain_lost(gone, {Errc::kPeerLost, "the engine was made anew"});
  return engine;
}

Result<JobSteps::Use> EngineSlot::connect(cluster::Epoch epoch, const cluster::Placement& placement,
                                          const std::vector<std::string>& addresses,
                                          cluster::NodeId& to_blame) {
  Result<PlacedChain> made = make_chain_(epoch, placement, addresses, to_blame);
  if (!made) return made.status();
  // std::function wants copies: the chain travels in a shared box.
  auto box = std::make_shared<PlacedChain>(std::move(*made));
  return Use([this, box] { install(std::move(*box)); });
}

void EngineSlot::install(PlacedChain placed) {
  const auto gate = std::make_shared<StepGate>();
  auto gated = std::make_unique<GatedChain>(
      std::move(placed.chain), gate,
      [this, epoch = placed.epoch](const Status& why) { chain_lost(epoch, why); });
  std::unique_ptr<Chain> replaced;
  const auto engine = [&] {
    const std::lock_guard lock(mutex_);
    epoch_ = placed.epoch;
    gate_ = gate;
    given_up_ = false;
    auto found = engine_.lock();
    engine_has_it_ = found != nullptr;
    if (found == nullptr) replaced = std::exchange(waiting_, std::move(gated));
    return found;
  }();
  if (engine != nullptr) engine->replace_chain(std::move(gated));
}

void EngineSlot::pause(std::function<void()> paused) {
  const auto gate = [&] {
    const std::lock_guard lock(mutex_);
    return epoch_ != 0 && engine_has_it_ ? gate_ : nullptr;
  }();
  if (gate != nullptr) return gate->pause(std::move(paused));
  paused();
}

void EngineSlot::resume() {
  const std::lock_guard lock(mutex_);
  if (gate_ != nullptr) gate_->resume();
}

void EngineSlot::remove() {
  std::unique_ptr<Chain> waited;
  bool lost = false;  // after a pause nothing is inside
  const auto engine = [&] {
    const std::lock_guard lock(mutex_);
    epoch_ = 0;
    lost = gate_ != nullptr && gate_->under_way() > 0;
    gate_.reset();
    waited.swap(waiting_);
    return std::exchange(engine_has_it_, false) ? engine_.lock() : nullptr;
  }();
  if (engine != nullptr) engine->replace_chain(std::make_unique<AbsentChain>(info_, not_ready()), lost);
}

void EngineSlot::give_up(const Status& why) {
  const auto engine = [&] {
    const std::lock_guard lock(mutex_);
    given_up_ = epoch_ == 0;
    if (!given_up_) return std::shared_ptr<Engine>();
    engine_has_it_ = false;
    return engine_.lock();
  }();
  if (engine != nullptr) engine->replace_chain(std::make_unique<AbsentChain>(info_, why));
}

void EngineSlot::expect() {
  const auto engine = [&] {
    const std::lock_guard lock(mutex_);
    return std::exchange(given_up_, false) ? engine_.lock() : nullptr;
  }();
  if (engine != nullptr) engine->replace_chain(std::make_unique<AbsentChain>(info_, not_ready()));
}

bool EngineSlot::connected() const {
  const std::lock_guard lock(mutex_);
  return epoch_ != 0;
}

EngineStats EngineSlot::stats() const {
  const auto engine = [&] {
    const std::lock_guard lock(mutex_);
    return engine_.lock();
  }();
  return engine == nullptr ? EngineStats{} : engine->stats();
}

void EngineSlot::on_lost(Lost lost) {
  const std::lock_guard lock(mutex_);
  lost_ = std::move(lost);
}

// A chain that was taken away breaks too, and is nobody's concern then.
void EngineSlot::chain_lost(cluster::Epoch epoch, const Status& why) {
  Lost tell;
  {
    const std::lock_guard lock(mutex_);
    if (epoch != epoch_) return;
    epoch_ = 0;
    tell = lost_;
  }
  if (tell) tell(epoch, why);
}

}  // namespace butterfly::runtime
