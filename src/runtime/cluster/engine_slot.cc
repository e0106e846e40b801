#include "runtime/cluster/engine_slot.h"

#include <utility>

namespace butterfly::runtime {
namespace {

// No chain: every step fails with the same status. kPeerLost makes the engine wait for another stage; any
// other one is the requests' end.
class AbsentStage final : public Stage {
 public:
  AbsentStage(const StageInfo& info, Status why) : info_(info), why_(std::move(why)) {}
  const StageInfo& info() const override { return info_; }
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
  void close() override {}

 private:
  const StageInfo info_;
  const Status why_;
  bool started_ = false;
};

Status not_ready() { return {Errc::kPeerLost, "the nodes are not ready yet"}; }

// A node that was lost must be noticed, planned around, and its layers loaded elsewhere.
constexpr Duration kStageWaitMax = std::chrono::minutes(2);

}  // namespace

std::shared_ptr<Engine> EngineSlot::make_engine(const model::Tokenizer* tokenizer, EngineOptions options) {
  options.on_stage_lost = [this](const Status& why) { stage_lost(why); };
  options.stage_wait_max = kStageWaitMax;
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Stage> stage = std::exchange(waiting_, nullptr);
  if (stage == nullptr)
    stage = std::make_unique<AbsentStage>(info_, not_ready());
  auto engine = std::make_shared<Engine>(std::move(stage), tokenizer, options);
  engine_ = engine;
  return engine;
}

void EngineSlot::install(Chain chain) {
  std::unique_lock lock(mutex_);
  has_chain_ = true;
  given_up_ = false;
  cut_ = std::move(chain.cut);
  const auto engine = engine_.lock();
  if (engine == nullptr) {
    waiting_ = std::move(chain.stage);
    return;
  }
  lock.unlock();
  engine->replace_stage(std::move(chain.stage));
}

void EngineSlot::remove() {
  std::function<void()> cut;
  {
    const std::lock_guard lock(mutex_);
    has_chain_ = false;
    waiting_.reset();
    cut.swap(cut_);
  }
  if (cut) cut();
}

void EngineSlot::give_up(const Status& why) {
  const auto engine = [&] {
    const std::lock_guard lock(mutex_);
    given_up_ = !has_chain_;
    return has_chain_ ? nullptr : engine_.lock();
  }();
  if (engine != nullptr) engine->replace_stage(std::make_unique<AbsentStage>(info_, why));
}

void EngineSlot::expect() {
  const auto engine = [&] {
    const std::lock_guard lock(mutex_);
    return std::exchange(given_up_, false) ? engine_.lock() : nullptr;
  }();
  if (engine != nullptr) engine->replace_stage(std::make_unique<AbsentStage>(info_, not_ready()));
}

bool EngineSlot::has_chain() const {
  const std::lock_guard lock(mutex_);
  return has_chain_;
}

void EngineSlot::on_lost(std::function<void(const Status&)> lost) {
  const std::lock_guard lock(mutex_);
  lost_ = std::move(lost);
}

void EngineSlot::stage_lost(const Status& why) {
  std::function<void(const Status&)> tell;
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(has_chain_, false)) return;  // nobody expected it to be there
    cut_ = nullptr;
    tell = lost_;
  }
  if (tell) tell(why);
}

}  // namespace butterfly::runtime
