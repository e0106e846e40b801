#include "runtime/chain/stage_runner.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "runtime/chain/resume_message.h"

namespace butterfly::runtime {
namespace {

using cluster::Link;
using cluster::MessageHead;
using cluster::MessageKind;

// Between looks at whether the run shall end. Links wake their readers, so it costs nothing to be long.
constexpr Duration kIdle = std::chrono::seconds(5);

const LoadedModel& checked_stage(const LoadedModel& model, size_t place, const ChainOptions& options) {
  // The last stage's first member is the coordinator, its others are not.
  const bool may_end = model.group && model.group.self > 0;
  if ((model.has_head() && !may_end) || model.has_embedding() != (place == 0))
    fail(Errc::kInvalidArgument, "a stage with {} before it has {}: expected {}", place,
         to_string(model.range, model.config.layers),
         place == 0 ? "the embedding and no head" : "neither embedding nor head");
  if (const std::string why = options.format->why_not(model.config.row_cols()); !why.empty())
    fail(Errc::kInvalidArgument, "rows cannot travel as {}: {}", options.format->name, why);
  return model;
}

Status bad_step(const MessageHead& head, const std::string& what) {
  return {Errc::kCorrupt, fmt::format("step {} of epoch {}: {}", head.step, head.epoch, what)};
}

}  // namespace

StageRunner::StageRunner(const LoadedModel& model, Compute& compute, size_t place,
                         const ChainOptions& options)
    : layers_(checked_stage(model, place, options), compute, options.cache),
      place_(place),
      options_(options),
      limits_(chain_limits(layers_.info(), *options.format)),
      wait_(options.expect_steps && may_spin_for_steps()) {}

void StageRunner::Ways::close() const {
  if (from != nullptr) from->close();
  if (to != nullptr) to->close();
  if (group != nullptr) group->close();
}

Status StageRunner::run(std::shared_ptr<Link> from, std::shared_ptr<Link> to,
                        std::shared_ptr<StageGroup> group) {
  const model::GroupShare& share = layers_.model().group;
  BF_CHECK((group != nullptr) == static_cast<bool>(share) &&
           (group == nullptr || (group->self() == share.self && group->members() == share.members.size())))
      << "the layers are for member " << share.self << " of " << share.members.size();
  BF_CHECK(group == nullptr || group->is_first() || (from == nullptr && to == nullptr));
  here_ = {std::move(from), std::move(to), std::move(group)};
  {
    std::lock_guard lock(mutex_);
    BF_CHECK(!running_) << "one run at a time";
    running_ = true;
    closed_ = false;
    cut_.reset();
    silence_ = {};
    ways_ = here_;
    stats_.epoch = stats_.step = 0;
  }
  epoch_ = step_ = 0;
  failed_ = false;
  times_ = {};
  layers_.unplace_all();
  layers_.set_exchange(here_.group.get());
  Status why = serve();
  here_.close();
  layers_.set_exchange(nullptr);
  std::lock_guard lock(mutex_);
  blamed_ = cut_ ? cut_->peer : cluster::NodeId();
  if (cut_) why = Status(Errc::kPeerLost, fmt::format("[stage] {}: {}", blamed_.name, cut_->why));
  ways_ = here_ = {};
  running_ = false;
  if (closed_) why = Status(Errc::kCancelled, "the stage was closed");
  return why;
}

void StageRunner::close() {
  Ways ways;
  {
    std::lock_guard lock(mutex_);
    if (!running_) return;
    closed_ = true;
    ways = ways_;
  }
  layers_.cancel_fetch();
  ways.close();
}

void StageRunner::watch(Duration limit) {
  Ways ways;
  {
    std::lock_guard lock(mutex_);
    if (!running_) return;
    ways = ways_;
  }
  std::vector<Link*> to = {ways.to.get()}, from = {ways.from.get()};
  if (ways.group != nullptr)
    ways.group->add_links(to, from, doing_.load(std::memory_order_relaxed) == Doing::kComputing);
  {
    std::lock_guard lock(mutex_);
    if (!running_ || closed_ || cut_) return;
    cut_ = silence_.look(to, from, limit);
    if (!cut_) return;
  }
  layers_.cancel_fetch();
  ways.close();
}

cluster::NodeId StageRunner::blamed() const {
  std::lock_guard lock(mutex_);
  return blamed_;
}

StageRunnerStats StageRunner::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

uint32_t StageRunner::pending() const {
  Ways ways;
  {
    std::lock_guard lock(mutex_);
    if (!running_) return 0;
    ways = ways_;
  }
  const Doing doing = doing_.load(std::memory_order_relaxed);
  if (doing == Doing::kComputing) return ways.group != nullptr && ways.group->waiting() ? 0 : 1;
  const Link& from = ways.from != nullptr ? *ways.from : ways.group->from_first();
  return doing == Doing::kWaiting && from.waiting() ? 1 : 0;
}

Status StageRunner::serve() {
  Link& from = here_.from != nullptr ? *here_.from : here_.group->from_first();
  free_since_ = system_now();
  for (;;) {
    now_doing(Doing::kWaiting);
    const auto head = wait_.receive_head(from, kIdle);
    if (!head && head.status().code() == Errc::kTimeout) continue;
    if (!head) return head.status();
    now_doing(Doing::kReceiving);
    arrived_ = system_now();
    if (Status status = take(*head); !status) return status;
  }
}

Status StageRunner::take(const MessageHead& head) {
  // Only what this place can get, and only as long as it can be, is read at all.
  const bool step = head.kind == (place_ == 0 ? MessageKind::kTokens : MessageKind::kActivations);
  const bool failure = head.kind == MessageKind::kResult && place_ > 0;
  if (!step && !failure && head.kind != MessageKind::kControl)
    return bad_step(head, fmt::format("a message of kind {} at place {} of a chain",
                                      static_cast<unsigned>(head.kind), place_));
  const bool resume = head.kind == MessageKind::kControl && asks_for_pages(head.step);
  const bool goes_on = resume && head.step != kResumeStep;  // with the epoch that has begun
  const size_t bytes_max = step      ? limits_.bytes_max(place_)
                           : failure ? kFailureBytesMax
                           : resume  ? resume_bytes_max(limits_, place_, layers_.model().range.begin)
                                     : 0;
  if (Status status = read_body(head, bytes_max); !status) return status;
  if (head.epoch < epoch_ || (head.kind == MessageKind::kControl && head.epoch == epoch_ && !goes_on)) {
    std::lock_guard lock(mutex_);
    ++stats_.stale;
    return {};
  }
  if (goes_on && (head.epoch != epoch_ || step_ > 0))
    return bad_step(head, fmt::format("pages are asked for behind step {} of epoch {}", step_, epoch_));
  if (resume) return head.step == kFetchStep ? take_fetch(head) : take_resume(head);
  if (head.kind == MessageKind::kControl) return take_reset(head);
  if (head.epoch > epoch_) return bad_step(head, fmt::format("no reset has come since epoch {}", epoch_));
  if (head.step <= step_) return bad_step(head, fmt::format("step {} came before", step_));
  step_ = head.step;
  if (failed_) return {};  // the coordinator will know soon
  return failure ? take_failure(head) : take_step(head);
}

Status StageRunner::read_body(const MessageHead& head, size_t bytes_max) {
  Link& from = here_.from != nullptr ? *here_.from : here_.group->from_first();
  if (head.bytes > bytes_max)
    return bad_step(head, fmt::format("{} bytes, expected at most {}", head.bytes, bytes_max));
  body_.resize(head.bytes);
  return from.receive_body(body_, options_.send_timeout);
}

void StageRunner::begin_epoch(uint64_t epoch) {
  epoch_ = epoch;
  step_ = 0;
  failed_ = false;
  if (here_.group != nullptr) here_.group->begin_epoch(epoch);
  std::lock_guard lock(mutex_);
  stats_.epoch = epoch_;
  stats_.step = 0;
}

// The message at hand, as it came, to the other members.
Status StageRunner::pass_on(const MessageHead& head) {
  if (here_.group == nullptr || !here_.group->is_first()) return {};
  return here_.group->pass_on(head, body_, options_.send_timeout);
}

// To the next stage; the first member's business.
Status StageRunner::send_on(const MessageHead& head, std::span<const std::span<const std::byte>> pieces) {
  return here_.to == nullptr ? Status() : here_.to->send(head, pieces, options_.send_timeout);
}

// Passes with what is left here.
Status StageRunner::take_resume(const MessageHead& head) {
  if (head.step == kResumeStep) begin_epoch(head.epoch);
  if (Status status = pass_on(head); !status) return status;
  layers_.unplace_all();
  ResumeMessage message;
  if (Status status = message.read(body_, limits_, place_, layers_.model().range.begin); !status)
    return bad_step(head, status.text());
  CacheReport here;
  layers_.report(message.claims, here);
  values_.clear();
  write_stage_report(layers_.model().range.begin, here, values_);
  const std::span<const std::byte> pieces[] = {body_, values_};
  return send_on({.kind = MessageKind::kControl, .epoch = epoch_, .step = head.step, .bytes = 0}, pieces);
}

// Passes at once: stages fetch beside each other.
Status StageRunner::take_fetch(const MessageHead& head) {
  if (Status status = pass_on(head); !status) return status;
  ResumeMessage message;
  if (Status status = message.read(body_, limits_, 0, 0); !status) return bad_step(head, status.text());
  const std::span<const std::byte> pieces[] = {body_};
  if (Status status = send_on(head, pieces); !status) return status;
  layers_.fetch(message.claims, message.limit);
  return {};
}

Status StageRunner::take_reset(const MessageHead& head) {
  begin_epoch(head.epoch);
  if (Status status = pass_on(head); !status) return status;
  layers_.forget_all();
  return send_on({.kind = MessageKind::kControl, .epoch = epoch_, .step = 0, .bytes = 0}, {});
}

// Of a stage before this one: passes as it came.
Status StageRunner::take_failure(const MessageHead& head) {
  Status failure;
  if (Status status = read_failure(body_, failure); !status) return bad_step(head, status.text());
  failed_ = true;
  const std::span<const std::byte> pieces[] = {body_};
  return send_on(head, pieces);
}

Status StageRunner::take_step(const MessageHead& head) {
  if (Status status = pass_on(head); !status) return status;
  if (Status status = message_.read(body_, limits_, place_, layers_.model().range.begin); !status)
    return bad_step(head, status.text());
  if (Status status = layers_.prepare(message_.commands, message_.rows, message_.fill); !status)
    return bad_step(head, status.text());
  std::span<const float> hidden;
  if (!message_.values.empty()) {
    const size_t values = message_.rows.size() * limits_.dim;
    if (options_.format->is_exact()) {
      hidden = {reinterpret_cast<const float*>(message_.values.data()), values};
    } else {
      hidden_.resize(values);
      options_.format->decode(message_.values, hidden_);
      hidden = hidden_;
    }
  }
  const TimePoint received = system_now();
  times_.wait = arrived_ - free_since_;
  times_.receive = received - arrived_;
  now_doing(Doing::kComputing);
  const auto output = layers_.run(hidden);
  now_doing(Doing::kSending);
  const TimePoint computed = system_now();
  times_.compute = computed - received;
  // Members are somewhere in the middle of an exchange: there is no way to go on together.
  if (!output && here_.group != nullptr) return output.status();
  if (!output) {
    failed_ = true;
    {
      std::lock_guard lock(mutex_);
      ++stats_.failures;
    }
    values_.clear();
    write_failure(output.status(), values_);
    const std::span<const std::byte> pieces[] = {values_};
    return send_on({.kind = MessageKind::kResult, .epoch = head.epoch, .step = head.step, .bytes = 0},
                   pieces);
  }
  if (Status status = send_rows(head, output->hidden); !status) return status;
  free_since_ = system_now();
  {
    std::lock_guard lock(mutex_);
    stats_.step = head.step;
    ++stats_.steps;
    stats_.rows += message_.rows.size();
    stats_.times += times_;
    stats_.last = times_;
    stats_.spins = wait_.spins();
    stats_.spin_hits = wait_.spin_hits();
  }
  times_.send = free_since_ - computed;
  progress_.fetch_add(1, std::memory_order_relaxed);
  return {};
}

Status StageRunner::send_rows(const MessageHead& head, std::span<const float> rows) {
  if (here_.to == nullptr) return {};
  times_bytes_.clear();
  for (const StageTimes& before : message_.times) write_times(before, times_bytes_);
  write_times(times_, times_bytes_);
  std::span<const std::byte> values = std::as_bytes(rows);
  if (!options_.format->is_exact() && !rows.empty()) {
    values_.resize(options_.format->row_bytes(rows.size()));
    options_.format->encode(rows, values_);
    values = values_;
  }
  const std::span<const std::byte> pieces[] = {message_.header, times_bytes_, values};
  return send_on({.kind = MessageKind::kActivations, .epoch = head.epoch, .step = head.step, .bytes = 0},
                 pieces);
}

}  // namespace butterfly::runtime
