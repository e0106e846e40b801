#include "base/compute.h"

namespace butterfly {

Compute::Turn Compute::take() {
  std::unique_lock lock(mutex_);
  const uint64_t number = asked_++;
  changed_.wait(lock, [&] { return ended_ == number; });
  return Turn(this);
}

Compute::Turn Compute::take_last() {
  std::unique_lock lock(mutex_);
  ++last_;
  changed_.wait(lock, [&] { return asked_ == ended_; });
  --last_;
  ++asked_;
  return Turn(this);
}

std::optional<Compute::Turn> Compute::try_take() {
  const std::lock_guard lock(mutex_);
  if (asked_ != ended_) return std::nullopt;
  ++asked_;
  return Turn(this);
}

size_t Compute::waiting() const {
  const std::lock_guard lock(mutex_);
  return asked_ > ended_ ? static_cast<size_t>(asked_ - ended_ - 1) : 0;
}

void Compute::give_back() {
  bool waiting;
  {
    const std::lock_guard lock(mutex_);
    waiting = ++ended_ != asked_ || last_ > 0;
  }
  // All of them: only one knows that it is next.
  if (waiting) changed_.notify_all();
}

}  // namespace butterfly
