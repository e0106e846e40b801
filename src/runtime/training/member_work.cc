#include "runtime/training/member_work.h"

#include <fmt/format.h>

#include "base/log.h"

namespace butterfly::runtime {

using cluster::Arrival;

namespace {

constexpr Duration kStateLook = std::chrono::milliseconds(10);

}  // namespace

void MemberCalls::send_values(cluster::TrainMemberId to, cluster::Epoch epoch, uint64_t step,
                              const cluster::ValuesHead& head, ConstPieces pieces) const {
  const auto link = link_to(to);
  if (link == nullptr) return;
  if (Status status = link->send_values(epoch, step, head, pieces); !status)
    log_debug("training: {}", status.text());
}

Status MemberWork::refuse(TrainLink& link, const TrainLink::Incoming& incoming, const std::string& why) {
  link.close();
  return {Errc::kCorrupt, fmt::format("[training] {}: values {} of epoch {}, step {}, {} bytes: {}",
                                      link.peer().name, static_cast<int>(incoming.values.what),
                                      incoming.head.epoch, incoming.head.step, incoming.value_bytes, why)};
}

// A job like others: what computes may stand before it in the same queue.
void MemberWork::load_state(const cluster::TrainPlan& plan, std::function<void()> copy) {
  post([this, plan, copy = std::move(copy)]() mutable {
    {
      Lock lock(mutex_);
      const Arrival arrival = may_load(plan.epoch);
      if (arrival == Arrival::kWait) {
        // Somebody receives in place; that ends, or its link does.
        if (jobs_.empty()) changed_.wait_for(lock, kStateLook);
        lock.unlock();
        return load_state(plan, std::move(copy));
      }
      if (arrival != Arrival::kTake) return;
    }
    copy();
    const std::lock_guard lock(mutex_);
    loaded(plan);
  });
}

void MemberWork::post(std::function<void()> job) {
  const std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  notify();
}

void MemberWork::notify() {
  changed_.notify_all();
  readers_.wake();
}

bool MemberWork::run_one(Duration timeout) {
  std::function<void()> job;
  {
    Lock lock(mutex_);
    if (!stopped_ && jobs_.empty()) {
      const TimePoint start = system_now();
      const SendingSeconds before = sending();
      lock.unlock();
      readers_.wait(start + timeout, [this] {
        const std::lock_guard looking(mutex_);
        return stopped_ || !jobs_.empty();
      });
      lock.lock();
      times_.add_wait(start, system_now(), sending().since(before));
    }
    if (stopped_ || jobs_.empty()) return false;
    job = std::move(jobs_.front());
    jobs_.pop_front();
  }
  job();
  return true;
}

void MemberWork::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    notify();
  }
  readers_.stop();
}

bool MemberWork::stopped() const {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

}  // namespace butterfly::runtime
