#include "runtime/chain/group_chain.h"

#include <fmt/format.h>

#include "base/check.h"
#include "runtime/chain/resume_message.h"
#include "runtime/chain/step_message.h"

namespace butterfly::runtime {

using cluster::MessageKind;

GroupChain::GroupChain(const LoadedModel& model, Compute& compute, const ChainOptions& options,
                       std::shared_ptr<StageGroup> group)
    : layers_(model, compute, options.cache), options_(options), group_(std::move(group)) {
  BF_CHECK(model.is_whole() && model.group && model.group.self == 0 && group_->is_first() &&
           group_->members() == model.group.members.size())
      << to_string(model.range, model.config.layers) << ", member " << model.group.self << " of "
      << model.group.members.size();
  layers_.set_exchange(group_.get());
}

GroupChain::~GroupChain() { close(); }

void GroupChain::close() {
  closed_.store(true);
  group_->close();
}

Status GroupChain::lost(const Status& status) {
  group_->close();
  if (closed_.load()) return lost_ = Status(Errc::kCancelled, "the chain was closed");
  return lost_ = Status(Errc::kPeerLost, "the chain is broken: " + status.text());
}

Status GroupChain::submit(const StepRequest& request) {
  BF_CHECK(!under_way_) << "one step at a time";
  if (!lost_) return lost_;
  if (request.epoch != epoch_)
    return {Errc::kInvalidArgument, fmt::format("epoch {}, expected {}", request.epoch, epoch_)};
  // What does not fit here would not fit there: they get to see only what does.
  if (Status status = layers_.prepare(request.commands, request.rows, request.fill); !status) return status;
  header_.clear();
  write_header(request, header_);
  const Status status =
      group_->pass_on({.kind = MessageKind::kTokens, .epoch = epoch_, .step = request.step, .bytes = 0},
                      header_, options_.send_timeout);
  if (!status) return lost(status);
  under_way_ = true;
  step_ = request.step;
  return {};
}

StepResult GroupChain::receive(Duration) {
  StepResult result;
  result.epoch = epoch_;
  result.step = step_;
  if (!under_way_ || !lost_) {
    result.status = lost_ ? Status(Errc::kTimeout, "no step is under way") : lost_;
    return result;
  }
  under_way_ = false;
  if (const auto output = layers_.run({})) {
    result.logits = output->logits;
    result.hidden = output->normed;
  } else {
    result.status = lost(output.status());
  }
  return result;
}

Status GroupChain::begin_epoch(uint64_t epoch, uint64_t step, std::span<const std::byte> body) {
  epoch_ = epoch;
  under_way_ = false;
  if (!lost_) return lost_;
  group_->begin_epoch(epoch);
  const Status status = group_->pass_on(
      {.kind = MessageKind::kControl, .epoch = epoch, .step = step, .bytes = 0}, body, options_.send_timeout);
  return status ? status : lost(status);
}

Status GroupChain::reset(uint64_t epoch, Duration) {
  layers_.forget_all();
  return begin_epoch(epoch, 0, {});
}

Result<std::optional<CacheReport>> GroupChain::resume(uint64_t epoch, std::span<const PageClaim> claims,
                                                      Duration) {
  layers_.unplace_all();
  std::vector<std::byte> body;
  write_claims(claims, body);
  if (Status status = begin_epoch(epoch, kResumeStep, body); !status) return status;
  CacheReport report;
  layers_.report(claims, report);
  return std::optional(std::move(report));
}

}  // namespace butterfly::runtime
