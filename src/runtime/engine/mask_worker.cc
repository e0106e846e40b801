#include "runtime/engine/mask_worker.h"

#include "base/error.h"
#include "base/give_way.h"
#include "base/thread_name.h"
#include "base/thread_priority.h"

namespace butterfly::runtime {
namespace {

// Below the threads that compute steps: where there are fewer CPUs than threads, steps go first.
constexpr int kQuickNice = 5, kSlowNice = 15;
// A mask that took longer is a slow one. Ordinary schemas take some 10 to 200 us.
constexpr std::chrono::milliseconds kQuickMax{2};

}  // namespace

RuledText::RuledText(std::unique_ptr<model::TokenConstraint> constraint, size_t vocab, MaskWorker* worker)
    : constraint_(std::move(constraint)), mask_(model::mask_words(vocab)), worker_(worker) {}

void RuledText::compute() noexcept {
  const auto began = std::chrono::steady_clock::now();
  try {
    for (const int32_t token : accepted_)
      if (!constraint_->accept(token))
        fail(Errc::kInvalidArgument, "token {}: the constraint's mask allowed it, but its rules do not",
             token);
    accepted_.clear();
    constraint_->mask(mask_);
  } catch (...) {  // told to the one who asks for it
    error_ = std::current_exception();
  }
  last_time_ = std::chrono::steady_clock::now() - began;
}

std::span<const uint64_t> RuledText::mask() {
  if (worker_ == nullptr) {
    if (state_ == State::kUnknown) compute();
    state_ = State::kReady;
  } else {
    std::unique_lock lock(worker_->mutex_);
    if (state_ == State::kUnknown) {  // nobody asked for it ahead of time
      state_ = State::kWaiting;
      lock.unlock();
      compute();
      lock.lock();
      state_ = State::kReady;
    }
    worker_->changed_.wait(lock, [&] { return state_ == State::kReady; });
  }
  if (error_) std::rethrow_exception(error_);
  return mask_;
}

void RuledText::accept(int32_t token) {
  accepted_.push_back(token);
  if (worker_ == nullptr) {
    state_ = State::kUnknown;
    return;
  }
  const std::lock_guard lock(worker_->mutex_);
  state_ = State::kUnknown;
}

MaskWorker::~MaskWorker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (Lane& lane : lanes_) lane.jobs.clear();
  }
  changed_.notify_all();
  for (Lane& lane : lanes_)
    if (lane.thread.joinable()) lane.thread.join();
}

void MaskWorker::prepare(const std::shared_ptr<RuledText>& text) {
  const std::lock_guard lock(mutex_);
  if (text->state_ != RuledText::State::kUnknown || stopping_) return;
  text->state_ = RuledText::State::kWaiting;
  text->should_come_at_ = std::chrono::steady_clock::now() + text->last_time_;
  text->slow_ = text->last_time_ > kQuickMax;
  Lane& lane = lanes_[text->slow_ ? 1 : 0];
  lane.jobs.push_back(text);
  if (!lane.thread.joinable())
    lane.thread =
        std::thread([this, &lane, nice = text->slow_ ? kSlowNice : kQuickNice] { run(lane, nice); });
  changed_.notify_all();
}

bool MaskWorker::ready(const RuledText& text) const {
  const std::lock_guard lock(mutex_);
  return text.state_ == RuledText::State::kReady;
}

bool MaskWorker::slow(const RuledText& text) const {
  const std::lock_guard lock(mutex_);
  return text.slow_ && text.state_ != RuledText::State::kReady;
}

bool MaskWorker::wait(const RuledText& text, std::chrono::steady_clock::time_point deadline) const {
  std::unique_lock lock(mutex_);
  const auto ready = [&] { return text.state_ == RuledText::State::kReady; };
  return text.should_come_at_ > deadline ? ready() : changed_.wait_until(lock, deadline, ready);
}

void MaskWorker::run(Lane& lane, int nice) {
  name_thread(nice == kSlowNice ? "bf-mask-slow" : "bf-mask");
  come_after_others(nice);
  GiveWay give_way;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !lane.jobs.empty(); });
    if (stopping_) return;
    std::shared_ptr<RuledText> text = std::move(lane.jobs.front());
    lane.jobs.pop_front();
    // Nobody else holds it: its request is over.
    if (text.use_count() > 1) {
      lock.unlock();
      give_way.begin();
      text->compute();
      give_way.end();
      lock.lock();
      text->state_ = RuledText::State::kReady;
      changed_.notify_all();
    }
    lock.unlock();
    text.reset();
    on_ready_();
    lock.lock();
  }
}

}  // namespace butterfly::runtime
