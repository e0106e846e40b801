#include "cluster/transport/inproc.h"

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>

#include "base/check.h"
#include "cluster/transport/frame.h"
#include "cluster/transport/message.h"

namespace butterfly::cluster {
namespace {

// One direction. Closed by either end, for good.
class Pipe {
 public:
  enum class Moved { kYes, kTimeout, kClosed };

  explicit Pipe(const InprocOptions& options) : options_(options) {}

  Moved push(const MessageHead& head, std::span<const std::span<const std::byte>> pieces, Duration timeout) {
    const Deadline deadline(SystemClock::instance(), timeout);
    std::unique_lock lock(mutex_);
    const auto room = [&] {
      return messages_.empty() ||
             (messages_.size() < options_.messages_max && bytes_ + head.bytes <= options_.bytes_max);
    };
    if (!changed_.wait_until(lock, deadline.when(), [&] { return closed_ || room(); }))
      return Moved::kTimeout;
    if (closed_) return Moved::kClosed;
    Message message{head, PooledArray<std::byte>(head.bytes)};
    std::byte* to = message.body.data();
    for (const auto& piece : pieces) {
      if (!piece.empty()) std::memcpy(to, piece.data(), piece.size());
      to += piece.size();
    }
    bytes_ += head.bytes;
    messages_.push_back(std::move(message));
    changed_.notify_all();
    return Moved::kYes;
  }

  // What was pushed before the pipe was closed can still be taken.
  Moved pop(Message& into, Duration timeout) {
    const Deadline deadline(SystemClock::instance(), timeout);
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, deadline.when(), [&] { return closed_ || !messages_.empty(); }))
      return Moved::kTimeout;
    if (messages_.empty()) return Moved::kClosed;
    into = std::move(messages_.front());
    messages_.pop_front();
    bytes_ -= into.head.bytes;
    changed_.notify_all();
    return Moved::kYes;
  }

  bool waiting() const {
    const std::lock_guard lock(mutex_);
    return !messages_.empty();
  }

  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  const InprocOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Message> messages_;
  size_t bytes_ = 0;
  bool closed_ = false;
};

class InprocLink final : public Link {
 public:
  InprocLink(NodeId peer, std::shared_ptr<Pipe> out, std::shared_ptr<Pipe> in)
      : peer_(std::move(peer)), out_(std::move(out)), in_(std::move(in)) {}
  ~InprocLink() override { close(); }

  const NodeId& peer() const override { return peer_; }

  Status send(MessageHead head, std::span<const std::span<const std::byte>> pieces,
              Duration timeout) override {
    const auto bytes = message_bytes(head.kind, pieces);
    if (!bytes) return bytes.status();
    head.bytes = *bytes;
    if (closed_) return cancelled();
    const TimePoint start = now();
    const Pipe::Moved moved = out_->push(head, pieces, timeout);
    const std::lock_guard lock(counting_);
    counters_.send_wait += now() - start;
    if (moved == Pipe::Moved::kTimeout) {
      out_->close();  // as a stream that was cut in the middle
      return {Errc::kTimeout,
              fmt::format("[link] {}: {} was not taken in time", peer_.name, message_kind_name(head.kind))};
    }
    if (moved == Pipe::Moved::kClosed) return closed_ ? cancelled() : lost();
    ++counters_.messages_sent;
    counters_.bytes_sent += kFrameBytes + head.bytes;
    return {};
  }

  Result<MessageHead> receive_head(Duration timeout) override {
    BF_CHECK(body_left_ == 0) << "[link] the body of the last message was not received";
    if (closed_) return cancelled();
    const TimePoint start = now();
    const Pipe::Moved moved = in_->pop(current_, timeout);
    const std::lock_guard lock(counting_);
    counters_.receive_wait += now() - start;
    if (closed_) return cancelled();
    if (moved == Pipe::Moved::kTimeout)
      return {Errc::kTimeout, fmt::format("[link] {}: nothing came", peer_.name)};
    if (moved == Pipe::Moved::kClosed) return lost();
    body_left_ = current_.head.bytes;
    ++counters_.messages_received;
    counters_.bytes_received += kFrameBytes + body_left_;
    return current_.head;
  }

  Status receive_body(std::span<std::byte> into, Duration) override {
    BF_CHECK(into.size() == body_left_)
        << "[link] room for " << into.size() << " bytes, the body has " << body_left_;
    return receive_part(into, {});
  }

  Status receive_part(std::span<std::byte> into, Duration) override {
    BF_CHECK(into.size() <= body_left_) << "[link] " << into.size() << " bytes of " << body_left_;
    const size_t at = current_.body.size() - body_left_;
    body_left_ -= into.size();
    if (closed_) return cancelled();
    if (!into.empty()) std::memcpy(into.data(), current_.body.data() + at, into.size());
    return {};
  }

  bool waiting() const override { return !closed_ && in_->waiting(); }

  void close() override {
    closed_ = true;
    out_->close();
    in_->close();
  }

  LinkCounters counters() const override {
    const std::lock_guard lock(counting_);
    return counters_;
  }

 private:
  static TimePoint now() { return SystemClock::instance().now(); }
  Status cancelled() const {
    return {Errc::kCancelled, fmt::format("[link] {}: closed on this side", peer_.name)};
  }
  Status lost() const { return {Errc::kPeerLost, fmt::format("[link] {}: closed by the peer", peer_.name)}; }

  const NodeId peer_;
  const std::shared_ptr<Pipe> out_;
  const std::shared_ptr<Pipe> in_;
  std::atomic<bool> closed_{false};
  Message current_;
  size_t body_left_ = 0;
  mutable std::mutex counting_;
  LinkCounters counters_;
};

constexpr size_t kCallersMax = 16;  // links that wait for accept() at one address

// Links whose other end already has its owner.
struct Door {
  NodeId owner;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::unique_ptr<Link>> callers;
  bool closed = false;
};

}  // namespace

class InprocNetwork::Doors {
 public:
  explicit Doors(InprocOptions given) : options(given) {}
  const InprocOptions options;
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Door>> by_address;
};

namespace {

template <typename Doors>
class InprocListener final : public Listener {
 public:
  InprocListener(std::string address, std::shared_ptr<Door> door, std::shared_ptr<Doors> doors)
      : address_(std::move(address)), door_(std::move(door)), doors_(std::move(doors)) {}
  ~InprocListener() override { close(); }

  const std::string& address() const override { return address_; }

  Result<std::unique_ptr<Link>> accept(Duration timeout) override {
    const Deadline deadline(SystemClock::instance(), timeout);
    std::unique_lock lock(door_->mutex);
    if (!door_->changed.wait_until(lock, deadline.when(),
                                   [&] { return door_->closed || !door_->callers.empty(); }))
      return {Errc::kTimeout, fmt::format("[inproc] nobody called {}", address_)};
    if (door_->closed) return {Errc::kCancelled, fmt::format("[inproc] {} is closed", address_)};
    std::unique_ptr<Link> link = std::move(door_->callers.front());
    door_->callers.pop_front();
    door_->changed.notify_all();
    return link;
  }

  void close() override {
    {
      const std::lock_guard lock(doors_->mutex);
      const auto found = doors_->by_address.find(address_);
      if (found != doors_->by_address.end() && found->second == door_) doors_->by_address.erase(found);
    }
    const std::lock_guard lock(door_->mutex);
    door_->closed = true;
    door_->callers.clear();
    door_->changed.notify_all();
  }

 private:
  const std::string address_;
  const std::shared_ptr<Door> door_;
  const std::shared_ptr<Doors> doors_;
};

}  // namespace

std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> inproc_pair(NodeId a_id, NodeId b_id,
                                                                    InprocOptions options) {
  auto there = std::make_shared<Pipe>(options), back = std::make_shared<Pipe>(options);
  return {std::make_unique<InprocLink>(std::move(b_id), there, back),
          std::make_unique<InprocLink>(std::move(a_id), back, there)};
}

InprocNetwork::InprocNetwork(InprocOptions options) : doors_(std::make_shared<Doors>(options)) {}
InprocNetwork::~InprocNetwork() = default;

Result<std::unique_ptr<Listener>> InprocNetwork::listen(const NodeId& self, const std::string& address) {
  auto door = std::make_shared<Door>();
  door->owner = self;
  {
    const std::lock_guard lock(doors_->mutex);
    if (!doors_->by_address.emplace(address, door).second)
      return {Errc::kInvalidArgument, fmt::format("[inproc] somebody listens at {} already", address)};
  }
  return std::unique_ptr<Listener>(std::make_unique<InprocListener<Doors>>(address, std::move(door), doors_));
}

Result<std::unique_ptr<Link>> InprocNetwork::connect(const NodeId& self, const std::string& address,
                                                     Duration timeout) {
  std::shared_ptr<Door> door;
  {
    const std::lock_guard lock(doors_->mutex);
    const auto found = doors_->by_address.find(address);
    if (found == doors_->by_address.end())
      return {Errc::kPeerLost, fmt::format("[inproc] nobody listens at {}", address)};
    door = found->second;
  }
  const Deadline deadline(SystemClock::instance(), timeout);
  std::unique_lock lock(door->mutex);
  if (!door->changed.wait_until(lock, deadline.when(),
                                [&] { return door->closed || door->callers.size() < kCallersMax; }))
    return {Errc::kTimeout, fmt::format("[inproc] {} did not answer", address)};
  if (door->closed) return {Errc::kPeerLost, fmt::format("[inproc] nobody listens at {}", address)};
  auto [mine, theirs] = inproc_pair(self, door->owner, doors_->options);
  door->callers.push_back(std::move(theirs));
  door->changed.notify_all();
  return std::move(mine);
}

}  // namespace butterfly::cluster
