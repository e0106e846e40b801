#include "runtime/chain/linked_chain.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "runtime/chain/resume_message.h"
#include "runtime/engine/move_choice.h"

namespace butterfly::runtime {
namespace {

using cluster::Link;
using cluster::MessageHead;
using cluster::MessageKind;

constexpr size_t kSafeBytes = 32 << 10;  // of a message that any socket's buffers take at once

const LoadedModel& checked(const LoadedModel& model, size_t workers, const ChainOptions& options) {
  if (workers == 0 || !model.has_head() || model.has_embedding())
    fail(Errc::kInvalidArgument,
         "the last stage of a chain with {} others has {}: expected the head and no embedding", workers,
         to_string(model.range, model.config.layers));
  if (const std::string why = options.format->why_not(model.config.row_cols()); !why.empty())
    fail(Errc::kInvalidArgument, "rows cannot travel as {}: {}", options.format->name, why);
  return model;
}

ChainInfo with_steps(ChainInfo info, size_t stages) {
  info.steps_max = stages;
  return info;
}

Status corrupt(const MessageHead& head, const std::string& what) {
  return {Errc::kCorrupt, fmt::format("step {} of epoch {}: {}", head.step, head.epoch, what)};
}

}  // namespace

LinkedChain::LinkedChain(const LoadedModel& model, Compute& compute, size_t workers,
                         std::shared_ptr<Link> to_first, std::shared_ptr<Link> from_last,
                         const ChainOptions& options, std::shared_ptr<ChainTimes> times,
                         std::shared_ptr<StageGroup> group)
    : layers_(checked(model, workers, options), compute, options.cache),
      info_(with_steps(layers_.info(), workers + 1)),
      workers_(workers),
      to_first_(std::move(to_first)),
      from_last_(std::move(from_last)),
      options_(options),
      limits_(chain_limits(info_, *options.format)),
      times_(std::move(times)),
      group_(std::move(group)),
      wait_(options.expect_steps && may_spin_for_steps()) {
  BF_CHECK((group_ != nullptr) == static_cast<bool>(model.group) &&
           (group_ == nullptr || group_->is_first()));
  layers_.set_exchange(group_.get());
}

LinkedChain::~LinkedChain() { close(); }

void LinkedChain::close() {
  closed_.store(true);
  layers_.cancel_fetch();
  to_first_->close();
  from_last_->close();
  if (group_ != nullptr) group_->close();
}

// To the engine it is all one: what was under way is lost, and nothing is wrong with the requests.
Status LinkedChain::lost(const Status& status) {
  to_first_->close();
  from_last_->close();
  if (group_ != nullptr) group_->close();
  if (closed_.load()) return lost_ = Status(Errc::kCancelled, "the chain was closed");
  return lost_ = Status(Errc::kPeerLost, "the chain is broken: " + status.text());
}

Status LinkedChain::submit(const StepRequest& request) {
  if (!lost_) return lost_;
  if (pending_.size() >= info_.steps_max)
    return {Errc::kInvalidArgument,
            fmt::format("{} steps are under way, at most {} may be", pending_.size(), info_.steps_max)};
  if (request.epoch != epoch_)
    return {Errc::kInvalidArgument, fmt::format("epoch {}, expected {}", request.epoch, epoch_)};
  if (request.rows.empty() || request.rows.size() > limits_.rows_max ||
      request.commands.size() > limits_.commands_max())
    return {
        Errc::kInvalidArgument,
        fmt::format("a step of {} rows and {} cache commands, expected 1 to {} and up to {}",
                    request.rows.size(), request.commands.size(), limits_.rows_max, limits_.commands_max())};
  Pending pending{request, {}, system_now(), {}};
  write_header(request, pending.header);
  // Both ends of a ring that send more than sockets hold would wait for each other: take in first what comes.
  // Behind a failure nothing more comes.
  while (pending.header.size() > kSafeBytes && early_.size() < pending_.size() &&
         (early_.empty() || early_.back().head.kind != MessageKind::kResult)) {
    Message message;
    if (Status status = read_message(options_.send_timeout, message); !status) return lost(status);
    early_.push_back(std::move(message));
  }
  const std::span<const std::byte> pieces[] = {pending.header};
  if (Status status =
          to_first_->send({.kind = MessageKind::kTokens, .epoch = epoch_, .step = request.step, .bytes = 0},
                          pieces, options_.send_timeout);
      !status)
    return lost(status);
  pending.send = system_now() - pending.submitted;
  pending_.push_back(std::move(pending));
  return {};
}

// The next message, body and all. kTimeout leaves the chain whole; other errors mean lost().
Status LinkedChain::read_message(Duration timeout, Message& message) {
  const TimePoint began = system_now();
  const auto found = wait_.receive_head(*from_last_, timeout);
  if (!found) return found.status();
  const TimePoint arrived = system_now();
  const MessageHead& head = message.head = *found;
  const bool known = head.kind == MessageKind::kActivations || head.kind == MessageKind::kResult ||
                     head.kind == MessageKind::kControl;
  if (!known)
    return corrupt(
        head, fmt::format("a message of kind {} at the end of a chain", static_cast<unsigned>(head.kind)));
  const size_t bytes_max = head.kind == MessageKind::kActivations ? limits_.bytes_max(workers_)
                           : head.kind == MessageKind::kResult    ? kFailureBytesMax
                           : asks_for_pages(head.step)
                               ? resume_bytes_max(limits_, workers_, layers_.model().range.begin)
                               : 0;
  if (head.bytes > bytes_max)
    return corrupt(head, fmt::format("{} bytes, expected at most {}", head.bytes, bytes_max));
  message.body.resize(head.bytes);
  if (Status status = from_last_->receive_body(message.body, options_.send_timeout); !status)
    return status.code() == Errc::kTimeout ? Status(Errc::kPeerLost, status.text()) : status;
  message.times = {.wait = arrived - began, .receive = system_now() - arrived, .compute = {}, .send = {}};
  return {};
}

// The next one of this epoch, into message_.
Status LinkedChain::next_message(Duration timeout) {
  const TimePoint deadline = system_now() + timeout;
  for (;;) {
    if (!early_.empty()) {
      std::swap(message_, early_.front());
      early_.pop_front();
    } else if (Status status = read_message(std::max(Duration(0), deadline - system_now()), message_);
               !status) {
      return status;
    }
    if (message_.head.epoch == epoch_) return {};
    if (message_.head.epoch > epoch_)
      return corrupt(message_.head, fmt::format("the chain is at epoch {}", epoch_));
    ++stale_;
  }
}

Status LinkedChain::read_rows(const Pending& pending, std::span<const float>& hidden) {
  const MessageHead& head = message_.head;
  if (Status status = came_.read(message_.body, limits_, workers_, layers_.model().range.begin); !status)
    return corrupt(head, status.text());
  if (!std::ranges::equal(came_.header, pending.header))
    return corrupt(head, "the rows that came back are not those that were sent out");
  if (came_.values.empty()) return {};  // of a fill that ended before
  const size_t values = came_.rows.size() * limits_.dim;
  if (options_.format->is_exact()) {
    hidden = {reinterpret_cast<const float*>(came_.values.data()), values};
  } else {
    hidden_.resize(values);
    options_.format->decode(came_.values, hidden_);
    hidden = hidden_;
  }
  return {};
}

void LinkedChain::compute(const Pending& pending, std::span<const float> hidden, StepResult& result) {
  const TimePoint began = system_now();
  if (result.status = pass_on(); !result.status) return;
  if (!pending.wanted) {
    result.status = layers_.apply_all(pending.request.commands);
    return;
  }
  result.status = layers_.prepare(pending.request.commands, pending.request.rows, pending.request.fill);
  if (!result.status) return;
  const auto output = layers_.run(hidden);
  if (!output) {
    result.status = group_ == nullptr ? output.status() : lost(output.status());
    return;
  }
  result.logits = output->logits;
  result.hidden = output->normed;
  const TimePoint done = system_now();
  if (times_ == nullptr) return;
  step_.stages = came_.times;
  step_.stages.push_back(message_.times);
  step_.stages.back().compute = done - began;
  step_.stages.back().send = pending.send;
  step_.step = pending.request.step;
  step_.rows = pending.request.rows.size();
  step_.total = done - pending.submitted;
  step_.passes_all = pending.request.fill.empty();
  times_->add(step_);
}

Status LinkedChain::pass_on() {
  if (group_ == nullptr) return {};
  const Status status = group_->pass_on(message_.head, message_.body, options_.send_timeout);
  return status ? status : lost(status);
}

StepResult LinkedChain::receive(Duration timeout) {
  StepResult result;
  result.epoch = epoch_;
  if (!lost_ || pending_.empty()) {
    result.status = lost_ ? Status(Errc::kTimeout, "no step is under way") : lost_;
    return result;
  }
  Status status = next_message(timeout);
  const MessageHead& head = message_.head;
  if (status.code() == Errc::kTimeout) {
    result.step = pending_.front().request.step;
    result.status = {Errc::kTimeout,
                     fmt::format("step {} did not come back: {}", result.step, status.text())};
    return result;
  }
  const Pending pending = std::move(pending_.front());
  pending_.pop_front();
  result.step = pending.request.step;
  std::span<const float> hidden;
  Status failure;
  if (status && head.step != result.step)
    status = corrupt(head, fmt::format("expected step {}", result.step));
  if (status && head.kind == MessageKind::kControl) status = corrupt(head, "a reset that nobody asked for");
  if (status && head.kind == MessageKind::kResult) status = read_failure(message_.body, failure);
  if (status && head.kind == MessageKind::kActivations) status = read_rows(pending, hidden);
  if (!status) {
    result.status = lost(status);
  } else if (!failure) {
    result.status = failure;
  } else {
    compute(pending, hidden, result);
  }
  return result;
}

Status LinkedChain::reset(uint64_t epoch, Duration timeout) {
  epoch_ = epoch;
  pending_.clear();
  layers_.forget_all();
  if (Status status = send_round(0, {}, timeout); !status) return status;
  if (group_ != nullptr) group_->begin_epoch(epoch);
  return pass_on();
}

Result<std::optional<CacheReport>> LinkedChain::resume(uint64_t epoch, std::span<const PageClaim> claims,
                                                       Duration timeout) {
  epoch_ = epoch;
  pending_.clear();
  layers_.unplace_all();
  Result<CacheReport> report = ask(kResumeStep, claims, timeout);
  if (!report) return report.status();
  const MoveChoice choice = choose_move(
      *report, claims, times_ == nullptr ? 0 : times_->row_seconds() / static_cast<double>(info_.layers));
  if (choice.offered) log_info("{}", to_string(choice));
  // Also where nothing is sent: those who hold it for others hear that they need not any more.
  const std::vector<PageClaim> wanted = choice.send ? claims_in_use(claims) : std::vector<PageClaim>();
  std::vector<std::byte> body;
  write_claims(wanted, body, move_limit(choice));
  if (Status status = begin_round(kFetchStep, body); !status) return status;
  layers_.fetch(wanted, move_limit(choice));
  if (Status status = end_round(kFetchStep, timeout); !status) return status;
  if (Status status = pass_on(); !status) return status;
  PageMove move = outcome_of(choice, *report, *report, claims);
  if (choice.send) {
    Result<CacheReport> after = ask(kReportStep, claims, timeout);
    if (!after) return after.status();
    move = outcome_of(choice, *report, *after, claims);
    report = std::move(after);
  }
  report->move = move;
  return std::optional(*std::move(report));
}

Result<CacheReport> LinkedChain::ask(uint64_t step, std::span<const PageClaim> claims, Duration timeout) {
  std::vector<std::byte> body;
  write_claims(claims, body);
  if (Status status = send_round(step, body, timeout); !status) return status;
  ResumeMessage came;
  const Status status = came.read(message_.body, limits_, workers_, layers_.model().range.begin);
  if (!status) return lost(corrupt(message_.head, status.text()));
  if (came.claims.size() != claims.size())
    return lost(corrupt(message_.head, "other pages than were asked for"));
  if (group_ != nullptr && step == kResumeStep) group_->begin_epoch(epoch_);
  if (Status passed = pass_on(); !passed) return passed;
  layers_.report(claims, came.report);
  return std::move(came.report);
}

// A message without rows that passes all stages and comes back.
Status LinkedChain::send_round(uint64_t step, std::span<const std::byte> body, Duration timeout) {
  if (Status status = begin_round(step, body); !status) return status;
  return end_round(step, timeout);
}

Status LinkedChain::begin_round(uint64_t step, std::span<const std::byte> body) {
  if (!lost_) return lost_;
  const std::span<const std::byte> pieces[] = {body};
  const Status status =
      to_first_->send({.kind = MessageKind::kControl, .epoch = epoch_, .step = step, .bytes = 0}, pieces,
                      options_.send_timeout);
  return status ? status : lost(status);
}

Status LinkedChain::end_round(uint64_t step, Duration timeout) {
  Status status = next_message(timeout);
  const MessageHead& head = message_.head;
  if (status && (head.kind != MessageKind::kControl || head.step != step))
    status = corrupt(head, "expected the message that went out to come round");
  if (!status) return lost(status);
  return {};
}

}  // namespace butterfly::runtime
