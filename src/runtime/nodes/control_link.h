// A link for control messages: sends without blocking the sender, and tells what comes.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/transport/message.h"

namespace butterfly::runtime {

// Two threads, one for each direction. Both callbacks run on the reading thread; on_closed() comes once,
// last, and not after the destructor began.
class ControlLink {
 public:
  struct Callbacks {
    std::function<void(cluster::Message message)> on_message;
    std::function<void(std::string why)> on_closed;
  };
  // `body_bytes_max`: longer messages break the link.
  ControlLink(std::unique_ptr<cluster::Link> link, size_t body_bytes_max, Callbacks callbacks);
  ~ControlLink();  // close(), and waits for both threads
  ControlLink(const ControlLink&) = delete;
  ControlLink& operator=(const ControlLink&) = delete;

  const cluster::NodeId& peer() const { return link_->peer(); }
  // Queued. A peer that lets more than kQueueMax messages, or kQueueBytesMax, wait is cut off.
  void send(cluster::MessageHead head, std::vector<std::byte> body);
  static constexpr size_t kQueueMax = 1024;
  static constexpr size_t kQueueBytesMax = size_t{2} << 20;
  // What was sent before is still written, for a moment; then the link ends.
  void close();

 private:
  void read();
  void write();

  const std::unique_ptr<cluster::Link> link_;
  const size_t body_bytes_max_;
  const Callbacks callbacks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<cluster::MessageHead, std::vector<std::byte>>> queue_;
  size_t queued_bytes_ = 0;
  bool closing_ = false;
  bool silent_ = false;  // no more callbacks
  std::thread reader_, writer_;
};

}  // namespace butterfly::runtime
