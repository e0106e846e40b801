#include "runtime/engine/local_chain.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/log.h"
#include "runtime/engine/move_choice.h"

namespace butterfly::runtime {

LocalChain::LocalChain(const LoadedModel& model, Compute& compute, const PagedLayersOptions& options)
    : layers_(model, compute, options), row_layer_seconds_(options.row_layer_seconds) {
  BF_CHECK(model.is_whole()) << to_string(model.range, model.config.layers);
}

Status LocalChain::submit(const StepRequest& request) {
  BF_CHECK(!under_way_) << "one step at a time";
  if (request.epoch != epoch_)
    return {Errc::kInvalidArgument, fmt::format("epoch {}, expected {}", request.epoch, epoch_)};
  if (Status status = layers_.prepare(request.commands, request.rows, request.fill); !status) return status;
  under_way_ = true;
  step_ = request.step;
  return {};
}

StepResult LocalChain::receive(Duration) {
  StepResult result;
  result.epoch = epoch_;
  result.step = step_;
  if (!under_way_) {
    result.status = {Errc::kTimeout, "no step is under way"};
    return result;
  }
  under_way_ = false;
  if (const auto output = layers_.run({})) {
    result.logits = output->logits;
    result.hidden = output->normed;
  } else {
    result.status = output.status();
  }
  return result;
}

Result<std::vector<std::vector<int32_t>>> LocalChain::draft(const DraftRequest& request) {
  BF_CHECK(!under_way_) << "drafts are made between steps";
  if (request.epoch != epoch_)
    return Status(Errc::kInvalidArgument, fmt::format("epoch {}, expected {}", request.epoch, epoch_));
  return layers_.draft(request);
}

Status LocalChain::reset(uint64_t epoch, Duration) {
  epoch_ = epoch;
  under_way_ = false;
  layers_.forget_all();
  return {};
}

Result<std::optional<CacheReport>> LocalChain::resume(uint64_t epoch, std::span<const PageClaim> claims,
                                                      Duration) {
  epoch_ = epoch;
  under_way_ = false;
  layers_.unplace_all();
  CacheReport report;
  layers_.report(claims, report);
  const MoveChoice choice = choose_move(report, claims, row_layer_seconds_ ? row_layer_seconds_() : 0);
  if (choice.offered) log_info("{}", to_string(choice));
  // Also where nothing is sent: those who hold it for others hear that they need not any more.
  layers_.fetch(choice.send ? claims_in_use(claims) : std::vector<PageClaim>(), move_limit(choice));
  CacheReport after;
  layers_.report(claims, after);
  after.move = outcome_of(choice, report, after, claims);
  return std::optional(std::move(after));
}

}  // namespace butterfly::runtime
