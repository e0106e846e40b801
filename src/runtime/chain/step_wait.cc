#include "runtime/chain/step_wait.h"

#include <algorithm>
#include <thread>

#include "base/cgroup.h"

namespace butterfly::runtime {
namespace {

using cluster::Link;
using cluster::MessageHead;

constexpr Duration kShortest = std::chrono::microseconds(200);  // links spin for about that long themselves
constexpr Duration kLongest = std::chrono::seconds(1);
constexpr size_t kMissesFree = 2;
constexpr size_t kPauseMax = 64;

}  // namespace

bool may_spin_for_steps() {
  static const bool enough = cgroup_cpu_quota().value_or(1) >= 1;
  return enough;
}

Result<MessageHead> StepWait::receive_head(Link& link, Duration timeout) {
  const TimePoint began = system_now();
  auto head = wait(link, timeout, began);
  if (!head) return head;
  last_[count_++ % last_.size()] = system_now() - began;
  return head;
}

Duration StepWait::expected() const {
  if (count_ < last_.size()) return Duration(0);
  auto sorted = last_;
  std::ranges::nth_element(sorted, sorted.begin() + last_.size() / 2);
  return sorted[sorted.size() / 2];
}

Result<MessageHead> StepWait::wait(Link& link, Duration timeout, TimePoint began) {
  if (pause_ > 0) --pause_;
  const Duration expected = this->expected();
  const Duration behind = std::min(expected / 2, kBehind);
  if (!may_spin_ || pause_ > 0 || expected < kShortest || expected > kLongest || expected + behind >= timeout)
    return link.receive_head(timeout);
  auto head = link.receive_head(expected - std::min(expected / 4, kBefore));
  const auto is_timeout = [&] { return !head && head.status().code() == Errc::kTimeout; };
  if (!is_timeout()) return head;  // sooner than expected, or an end
  ++spins_;
  const TimePoint end = began + expected + behind;
  for (;;) {
    head = link.receive_head(Duration(0));
    if (!is_timeout() || system_now() >= end) break;
    std::this_thread::yield();  // to whoever computes on this CPU: another node of the same machine, say
  }
  if (head) {
    ++spin_hits_;
    missed_ = 0;
  }
  if (!is_timeout()) return head;
  // Now and then a step takes longer; whoever spins in vain again and again should not.
  if (++missed_ > kMissesFree) pause_ = std::min(size_t{1} << (missed_ - kMissesFree), kPauseMax);
  missed_ = std::min(missed_, kMissesFree + 6);
  return link.receive_head(std::max(Duration(0), timeout - (system_now() - began)));
}

}  // namespace butterfly::runtime
