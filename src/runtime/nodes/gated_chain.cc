#include "runtime/nodes/gated_chain.h"

#include <algorithm>
#include <utility>

namespace butterfly::runtime {

void StepGate::pause(std::function<void()> paused) {
  std::unique_lock lock(mutex_);
  holds_ = true;
  paused_ = std::move(paused);
  const auto call = due();
  lock.unlock();
  if (call) call();
}

void StepGate::resume() {
  const std::lock_guard lock(mutex_);
  holds_ = false;
  paused_ = nullptr;
  changed_.notify_all();
}

size_t StepGate::under_way() const {
  const std::lock_guard lock(mutex_);
  return under_way_;
}

std::function<void()> StepGate::due() {
  return holds_ && under_way_ == 0 ? std::exchange(paused_, nullptr) : nullptr;
}

GatedChain::GatedChain(std::unique_ptr<Chain> chain, std::shared_ptr<StepGate> gate,
                       std::function<void(const Status&)> lost)
    : chain_(std::move(chain)), gate_(std::move(gate)), lost_(std::move(lost)) {}

// Whoever waits for a pause must not wait for a chain that is gone.
GatedChain::~GatedChain() {
  close();
  ended(SIZE_MAX);
}

Status GatedChain::report_loss(Status status) {
  if (status.code() == Errc::kPeerLost && lost_) std::exchange(lost_, nullptr)(status);
  return status;
}

void GatedChain::ended(size_t steps) {
  std::unique_lock lock(gate_->mutex_);
  gate_->under_way_ -= std::min(steps, gate_->under_way_);
  const auto call = gate_->due();
  lock.unlock();
  if (call) call();
}

Status GatedChain::pass_on(const StepRequest& request) {
  const Status status = report_loss(chain_->submit(request));
  if (!status) ended(1);
  return status;
}

Status GatedChain::submit(const StepRequest& request) {
  {
    const std::lock_guard lock(gate_->mutex_);
    if (gate_->holds_ || !held_.empty()) {
      held_.push_back(request);
      return {};
    }
    ++gate_->under_way_;  // before it begins: a pause that comes now waits for it
  }
  return pass_on(request);
}

// Once steps may begin again, those that were held begin first.
Status GatedChain::pass_on_held(Duration timeout) {
  while (!held_.empty()) {
    {
      std::unique_lock lock(gate_->mutex_);
      if (gate_->holds_ && gate_->under_way_ > 0) return {};  // their results first
      const bool may =
          gate_->changed_.wait_for(lock, timeout, [&] { return !gate_->holds_ || gate_->closed_; });
      if (gate_->closed_) return {Errc::kCancelled, "the chain was closed"};
      if (!may) return {Errc::kTimeout, "steps are held back"};
      ++gate_->under_way_;
    }
    const StepRequest request = std::move(held_.front());
    held_.pop_front();
    if (Status status = pass_on(request); !status) return status;
  }
  return {};
}

StepResult GatedChain::receive(Duration timeout) {
  if (Status status = pass_on_held(timeout); !status) {
    StepResult result;
    result.status = std::move(status);
    return result;
  }
  StepResult result = chain_->receive(timeout);
  result.status = report_loss(std::move(result.status));
  if (result.status.code() != Errc::kTimeout) ended(1);
  return result;
}

Status GatedChain::reset(uint64_t epoch, Duration timeout) {
  held_.clear();
  ended(SIZE_MAX);
  return report_loss(chain_->reset(epoch, timeout));
}

Result<std::optional<CacheReport>> GatedChain::resume(uint64_t epoch, std::span<const PageClaim> claims,
                                                      Duration timeout) {
  held_.clear();
  ended(SIZE_MAX);
  auto report = chain_->resume(epoch, claims, timeout);
  if (!report) return report_loss(report.status());
  return report;
}

void GatedChain::close() {
  {
    const std::lock_guard lock(gate_->mutex_);
    gate_->closed_ = true;
    gate_->changed_.notify_all();
  }
  chain_->close();
}

}  // namespace butterfly::runtime
