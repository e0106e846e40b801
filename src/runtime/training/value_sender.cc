#include "runtime/training/value_sender.h"

namespace butterfly::runtime {

ValueSender::ValueSender(const cluster::PackingOptions& packing, Send send,
                         std::function<void(std::exception_ptr)> on_error)
    : send_(std::move(send)), on_error_(std::move(on_error)), packer_(packing), packing_(packer_.describe()) {
  thread_ = std::thread([this] { run(); });
}

ValueSender::~ValueSender() {
  stop();
  join();
}

void ValueSender::push(OutgoingValues values) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stopped_ || queue_.size() < kQueueMax; });
  if (stopped_ || values.epoch < epoch_) return;
  if (busy_ || !queue_.empty() || values.values.size() > kDirectBytesMax) {
    queue_.push_back(std::move(values));
    changed_.notify_all();
    return;
  }
  busy_ = true;
  lock.unlock();
  send_one(values);
}

void ValueSender::set_epoch(cluster::Epoch epoch) {
  const std::lock_guard lock(mutex_);
  epoch_ = epoch;
  std::erase_if(queue_, [&](const OutgoingValues& values) { return values.epoch < epoch; });
  changed_.notify_all();
}

void ValueSender::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  queue_.clear();
  changed_.notify_all();
}

void ValueSender::join() {
  if (thread_.joinable()) thread_.join();
}

void ValueSender::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopped_ || (!busy_ && !queue_.empty()); });
    if (stopped_) return;
    const OutgoingValues values = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    send_one(values);
    lock.lock();
  }
}

void ValueSender::send_one(const OutgoingValues& values) {
  const auto enter = [&](double SendingSeconds::*what) {
    const std::lock_guard lock(mutex_);
    seconds_ = seconds_now();
    doing_ = what;
    since_ = system_now();
  };
  const TimePoint start = system_now();
  std::exception_ptr error;
  try {
    enter(&SendingSeconds::compress);
    OutgoingValues sent = values;
    const ConstPieces pieces = packer_.prepare(sent.head, {&sent.values, 1}, sent.element_bytes);
    enter(&SendingSeconds::wire);
    const TimePoint packed = system_now();
    send_(sent, pieces);
    packer_.sent(seconds_of(system_now() - packed));
  } catch (...) {
    error = std::current_exception();
  }
  enter(nullptr);
  {
    const std::lock_guard lock(mutex_);
    busy_ = false;
    sent_bytes_ = packer_.sent_bytes();
    packing_ = packer_.describe();
    if (spans_.size() < cluster::kTrainSpansMax) spans_.emplace_back(start, since_);
    if (error != nullptr) stopped_ = true;
    changed_.notify_all();
  }
  if (error != nullptr) on_error_(error);
}

SendingSeconds ValueSender::seconds_now() const {
  SendingSeconds seconds = seconds_;
  if (doing_ != nullptr) seconds.*doing_ += seconds_of(system_now() - since_);
  return seconds;
}

SendingSeconds ValueSender::seconds() const {
  const std::lock_guard lock(mutex_);
  return seconds_now();
}

ValueSender::Figures ValueSender::figures() const {
  const std::lock_guard lock(mutex_);
  return {seconds_now(), sent_bytes_, packing_};
}

std::vector<std::pair<TimePoint, TimePoint>> ValueSender::take_spans() {
  const std::lock_guard lock(mutex_);
  return std::exchange(spans_, {});
}

}  // namespace butterfly::runtime
