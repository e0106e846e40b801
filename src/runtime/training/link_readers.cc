#include "runtime/training/link_readers.h"

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "cluster/transport/spin.h"

namespace butterfly::runtime {
namespace {

// A thread that comes back so late from yielding was not alone on its CPU.
constexpr Duration kYieldMax = std::chrono::microseconds(20);
constexpr Duration kOthersSend = std::chrono::milliseconds(1);  // before another look whether they still do
constexpr Duration kLookAfter = std::chrono::seconds(1);        // at links that take nothing

int poll_milliseconds(TimePoint until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - system_now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 3600 * 1000));
}

}  // namespace

LinkReaders::LinkReaders() : wake_fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (wake_fd_ < 0) throw_error(Errc::kIo, "[training] no descriptor is left to wake a thread with");
}

LinkReaders::~LinkReaders() {
  stop();
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    watch_wanted_.notify_all();
  }
  if (watch_.joinable()) watch_.join();
  ::close(wake_fd_);
}

LinkReaders::Taken LinkReaders::drop(TrainLink& link, const TrainLink::Incoming& incoming) {
  link.drop_values(incoming);
  return {.placed = [](const Status& came) { return came; }};
}

// ---- Threads of links ----

Status LinkReaders::read(TrainLink& link, const Take& take) {
  Slot slot{.link = link, .take = take};
  bool may_lend = false;
  for (;;) {
    if (may_lend && link.poll_fd() >= 0 && lend(slot)) {
      if (slot.error != nullptr) std::rethrow_exception(slot.error);
      if (!slot.status) return slot.status;
    }
    may_lend = true;
    if (slot.placed) {
      if (Status status = end_placed(slot, link.receive_rest()); !status) return status;
      continue;
    }
    if (!slot.begun) {
      auto incoming = link.receive(TrainLink::kNextMax);
      if (!incoming) return incoming.status();
      slot.begun = std::move(*incoming);
    }
    auto taken = take(*slot.begun, true);
    if (!taken) return taken.status();
    may_lend = slot.begun->value_bytes > kSmallBytesMax || !taken->placed;
    slot.begun.reset();
    slot.placed = std::move(taken->placed);
  }
}

Status LinkReaders::end_placed(Slot& slot, const Status& came) {
  return std::exchange(slot.placed, nullptr)(came);
}

// Returns once the link is back; false at once, where the computing thread is at work for long.
bool LinkReaders::lend(Slot& slot) {
  std::unique_lock lock(mutex_);
  if (stopped_ || (!waiting_ && system_now() - left_at_ >= kBusyMax)) return false;
  if (!watch_.joinable()) watch_ = std::thread([this] { keep_watch(); });
  slot.lent = true;
  slot.drained = false;
  slot.moved_at = system_now();
  slots_.push_back(&slot);
  lent_.fetch_add(1);
  if (!waiting_ && watch_sleeps_) watch_wanted_.notify_one();
  wake();
  slot.link.set_part_max(kLentPartMax);
  slot.returned.wait(lock, [&] { return !slot.lent; });
  slot.link.set_part_max(TrainLink::kPartMax);
  return true;
}

void LinkReaders::give_all_back() {
  for (Slot* slot : slots_) {
    slot->lent = false;
    slot->returned.notify_one();
  }
  slots_.clear();
}

// Sleeps while nothing is lent, and while the computing thread waits for long.
void LinkReaders::keep_watch() {
  std::unique_lock lock(mutex_);
  while (!over_) {
    if (waiting_ || slots_.empty()) {
      watch_sleeps_ = true;
      watch_wanted_.wait(lock);
      watch_sleeps_ = false;
    } else if (const Duration left = left_at_ + kBusyMax - system_now(); left > Duration(0)) {
      watch_wanted_.wait_for(lock, left);
    } else {
      give_all_back();
    }
  }
}

void LinkReaders::wake() {
  if (!sleeping_.load()) return;
  const uint64_t one = 1;
  (void)!::write(wake_fd_, &one, sizeof one);
}

void LinkReaders::stop() {
  stopped_ = true;
  const std::lock_guard lock(mutex_);
  if (waiting_)
    wake();
  else
    give_all_back();
}

// ---- The computing thread ----

void LinkReaders::give_back(Slot& slot) {
  const std::lock_guard lock(mutex_);
  std::erase(slots_, &slot);
  slot.lent = false;
  slot.returned.notify_one();
}

// True: values have been placed, and more of them may lie there.
bool LinkReaders::take_one(Slot& slot, bool& any) {
  if (slot.placed) {
    const auto some = slot.link.receive_some();
    if (some && some->bytes > 0) moved(*some, slot.moved_at);
    if (some && !some->all) {
      any = any || some->bytes > 0;
      slot.drained = some->bytes < kTurnBytes;
      return false;
    }
    any = true;
    slot.status = end_placed(slot, some.status());
    return false;
  }
  if (!slot.begun) {
    auto incoming = slot.link.receive(Duration(0));
    if (!incoming) {
      slot.drained = incoming.status().code() == Errc::kTimeout;
      if (!slot.drained) slot.status = incoming.status();
      return false;
    }
    slot.begun = std::move(*incoming);
  }
  auto taken = slot.take(*slot.begun, false);
  if (taken && taken->later) return false;
  any = true;
  slot.begun.reset();
  if (taken) {
    slot.placed = std::move(taken->placed);
    slot.moved_at = system_now();
  } else {
    slot.status = taken.status();
  }
  return slot.placed != nullptr;
}

// What lies there of one message. Whether there was any.
bool LinkReaders::take_all(Slot& slot) {
  bool any = false;
  try {
    while (take_one(slot, any)) continue;
  } catch (...) {
    slot.error = std::current_exception();
  }
  if (!slot.status || slot.error != nullptr) give_back(slot);
  return any;
}

// Whether bytes moved.
bool LinkReaders::send_some(Sending& sending) {
  if (sending.over) return false;
  if (!sending.begun) {
    sending.status = sending.link->begin_values(sending.values);
    sending.begun = sending.status.ok();
    sending.over = !sending.begun && sending.status.code() != Errc::kTimeout;
    if (!sending.begun) return false;
  }
  const auto some = sending.link->send_some();
  sending.status = some.status();
  sending.over = !some || some->all;
  if (!some || some->bytes == 0) return false;
  moved(*some, sending.moved_at);
  return true;
}

void LinkReaders::moved(const cluster::Moved& moved, TimePoint& moved_at) {
  const TimePoint now = system_now();
  slow_ = !moved.all && seconds_of(now - moved_at) * kSpinBytesPerSecond > static_cast<double>(moved.bytes);
  moved_at = now;
}

bool LinkReaders::send_all() {
  bool any = false;
  for (Sending& sending : sending_) any = send_some(sending) || any;
  return any;
}

// Without sleeping: whether something can be read, or is to be asked about.
bool LinkReaders::spin(TimePoint until, uint64_t lent, FunctionRef<bool()> enough) {
  if (fds_.size() == 1 || slow_ || ::getpriority(PRIO_PROCESS, 0) > 0) return false;
  const cluster::SpinPlace place;
  if (!place.have()) return false;
  TimePoint now = system_now();
  const TimePoint end = std::min(until, now + kSpinMax);
  while (now < end) {
    if (::poll(fds_.data(), fds_.size(), 0) > 0 || stopped_ || lent_ != lent || enough()) return true;
    const TimePoint before = system_now();
    std::this_thread::yield();  // to another node of the same machine, say
    now = system_now();
    if (now - before > kYieldMax) return false;
  }
  return false;
}

// One look at all lent links, and at those that send, after a wait for something to do. False: `until` is
// over.
bool LinkReaders::look(TimePoint until, FunctionRef<bool()> enough) {
  const uint64_t lent = lent_;
  {
    const std::lock_guard lock(mutex_);
    mine_ = slots_;
  }
  bool any = send_all();
  for (Slot* slot : mine_)
    if (slot->begun || !slot->drained) any = take_all(*slot) || any;
  if (any) return true;
  {
    const std::lock_guard lock(mutex_);
    mine_ = slots_;  // without those that were given back
  }
  fds_.assign(1, {.fd = wake_fd_, .events = POLLIN, .revents = 0});
  for (const Slot* slot : mine_)
    // Behind a message that waits, others wait too.
    fds_.push_back({.fd = slot->begun ? -1 : slot->link.poll_fd(), .events = POLLIN, .revents = 0});
  for (const Sending& sending : sending_) {
    if (sending.over) continue;
    // Where others are sending, nothing says when they are done.
    if (!sending.begun) until = std::min(until, system_now() + kOthersSend);
    fds_.push_back({.fd = sending.begun ? sending.link->poll_fd() : -1, .events = POLLOUT, .revents = 0});
  }
  if (!spin(until, lent, enough)) {
    sleeping_ = true;
    if (!stopped_ && lent_ == lent && !enough())
      (void)::poll(fds_.data(), fds_.size(), poll_milliseconds(until));
    sleeping_ = false;
  }
  uint64_t ignored;
  if (fds_[0].revents != 0) (void)!::read(wake_fd_, &ignored, sizeof ignored);
  for (size_t i = 0; i < mine_.size(); ++i)
    if (fds_[i + 1].revents != 0) mine_[i]->drained = false;
  const TimePoint now = system_now();
  look_after(now);
  return now < until;
}

// Nobody waits for ever for what has begun.
void LinkReaders::look_after(TimePoint now) {
  for (Slot* slot : mine_)
    if (slot->placed && now - slot->moved_at > kLentPartMax) give_back(*slot);
  for (Sending& sending : sending_)
    if (!sending.over && now - sending.moved_at > TrainLink::kSendMax) {
      sending.link->close();
      if (!sending.begun) sending.over = true;
    }
}

void LinkReaders::wait(TimePoint until, FunctionRef<bool()> enough) {
  {
    const std::lock_guard lock(mutex_);
    waiting_ = true;
  }
  while (!stopped_ && !enough() && look(until, enough)) continue;
  const std::lock_guard lock(mutex_);
  waiting_ = false;
  left_at_ = system_now();
  if (stopped_) give_all_back();
  if (!slots_.empty() && watch_sleeps_) watch_wanted_.notify_one();
}

void LinkReaders::send(std::span<Sending> all) {
  sending_ = all;
  for (Sending& sending : all) {
    sending.moved_at = system_now();
    if (sending.link->poll_fd() >= 0) continue;
    sending.status = sending.link->send_values(sending.values);
    sending.over = true;
  }
  const auto done = [&] { return std::ranges::all_of(all, &Sending::over); };
  while (!done()) {
    wait(system_now() + kLookAfter, done);
    if (!stopped_ || done()) continue;
    // Nobody takes anything any more, and links are about to be closed.
    mine_.clear();
    if (!send_all()) SystemClock::instance().sleep_until(system_now() + kOthersSend);
    look_after(system_now());
  }
  sending_ = {};
}

}  // namespace butterfly::runtime
