#include "runtime/nodes/control_link.h"

namespace butterfly::runtime {
namespace {

constexpr Duration kBodyMax = std::chrono::seconds(10);  // of a message whose head has come
constexpr Duration kReadLook = std::chrono::seconds(10);
constexpr Duration kSendMax = std::chrono::seconds(5);  // a peer that takes no message for so long is gone
constexpr Duration kLastSendMax = std::chrono::milliseconds(500);

}  // namespace

ControlLink::ControlLink(std::unique_ptr<cluster::Link> link, size_t body_bytes_max, Callbacks callbacks)
    : link_(std::move(link)), body_bytes_max_(body_bytes_max), callbacks_(std::move(callbacks)) {
  reader_ = std::thread([this] { read(); });
  writer_ = std::thread([this] { write(); });
}

ControlLink::~ControlLink() {
  {
    const std::lock_guard lock(mutex_);
    silent_ = true;
  }
  close();
  writer_.join();  // closes the link, which ends the reader
  reader_.join();
}

void ControlLink::send(cluster::MessageHead head, std::vector<std::byte> body) {
  const std::lock_guard lock(mutex_);
  if (closing_) return;
  if (queue_.size() >= kQueueMax || queued_bytes_ + body.size() > kQueueBytesMax) {
    closing_ = true;
    queue_.clear();
    queued_bytes_ = 0;
  } else {
    queued_bytes_ += body.size();
    queue_.emplace_back(head, std::move(body));
  }
  changed_.notify_one();
}

void ControlLink::close() {
  const std::lock_guard lock(mutex_);
  closing_ = true;
  changed_.notify_one();
}

void ControlLink::read() {
  while (true) {
    auto message = cluster::receive_message(*link_, body_bytes_max_, kReadLook, kBodyMax);
    if (!message && message.status().code() == Errc::kTimeout) continue;
    {
      const std::lock_guard lock(mutex_);
      if (silent_) break;
    }
    if (message) {
      callbacks_.on_message(std::move(*message));
      continue;
    }
    callbacks_.on_closed(message.status().text());
    break;
  }
  close();
}

void ControlLink::write() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return closing_ || !queue_.empty(); });
    if (queue_.empty()) break;
    const auto [head, body] = std::move(queue_.front());
    queue_.pop_front();
    queued_bytes_ -= body.size();
    const Duration timeout = closing_ ? kLastSendMax : kSendMax;
    lock.unlock();
    const Status status = cluster::send_message(*link_, head, body, timeout);
    lock.lock();
    if (!status) break;
  }
  closing_ = true;
  lock.unlock();
  link_->close();
}

}  // namespace butterfly::runtime
