#include "runtime/engine/mask_worker.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace butterfly::runtime {
namespace {

// Below the threads that compute steps: where there are fewer CPUs than threads, steps go first.
constexpr int kNice = 5;

}  // namespace

RuledText::RuledText(std::unique_ptr<model::TokenConstraint> constraint, size_t vocab, MaskWorker* worker)
    : constraint_(std::move(constraint)), mask_(model::mask_words(vocab)), worker_(worker) {}

void RuledText::compute() noexcept {
  try {
    constraint_->mask(mask_);
  } catch (...) {  // told to the one who asks for it
    error_ = std::current_exception();
  }
}

std::span<const uint64_t> RuledText::mask() {
  if (worker_ == nullptr) {
    if (state_ == State::kUnknown) compute();
    state_ = State::kReady;
  } else {
    std::unique_lock lock(worker_->mutex_);
    if (state_ == State::kUnknown) {  // nobody asked for it ahead of time
      compute();
      state_ = State::kReady;
    }
    worker_->changed_.wait(lock, [&] { return state_ == State::kReady; });
  }
  if (error_) std::rethrow_exception(error_);
  return mask_;
}

bool RuledText::accept(int32_t token) {
  if (!constraint_->accept(token)) return false;
  if (worker_ == nullptr) {
    state_ = State::kUnknown;
    return true;
  }
  const std::lock_guard lock(worker_->mutex_);
  state_ = State::kUnknown;
  return true;
}

MaskWorker::~MaskWorker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    jobs_.clear();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void MaskWorker::prepare(const std::shared_ptr<RuledText>& text) {
  const std::lock_guard lock(mutex_);
  if (text->state_ != RuledText::State::kUnknown || stopping_) return;
  text->state_ = RuledText::State::kWaiting;
  jobs_.push_back(text);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
}

bool MaskWorker::ready(const RuledText& text) const {
  const std::lock_guard lock(mutex_);
  return text.state_ == RuledText::State::kReady;
}

bool MaskWorker::wait(const RuledText& text, std::chrono::steady_clock::time_point deadline) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [&] { return text.state_ == RuledText::State::kReady; });
}

void MaskWorker::run() {
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kNice);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    std::shared_ptr<RuledText> text = std::move(jobs_.front());
    jobs_.pop_front();
    // Nobody else holds it: its request is over.
    if (text.use_count() > 1) {
      lock.unlock();
      text->compute();
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
