#include "allreduce/plain_link.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "cluster/transport/frame.h"
#include "cluster/transport/spin.h"

namespace butterfly::bench {
namespace {

using cluster::MessageHead;

class PlainLink final : public cluster::Link {
 public:
  PlainLink(int socket, cluster::NodeId peer) : socket_(socket), peer_(std::move(peer)) {}
  ~PlainLink() override { ::close(socket_); }

  const cluster::NodeId& peer() const override { return peer_; }

  Status send(MessageHead head, std::span<const std::span<const std::byte>> pieces, Duration) override {
    std::unique_lock lock(sending_);
    if (Status status = begin(head, pieces); !status) return status;
    for (;;) {
      const auto all = push(SIZE_MAX, 0);
      if (!all) return all.status();
      if (all->all) return {};
    }
  }
  Status begin_send(MessageHead head, std::span<const std::span<const std::byte>> pieces) override {
    if (!sending_.try_lock()) return {Errc::kTimeout, "others are sending"};
    Status status = begin(head, pieces);
    if (!status) sending_.unlock();
    return status;
  }
  Result<cluster::Moved> send_more(size_t bytes) override {
    auto all = push(bytes, MSG_DONTWAIT);
    if (!all || all->all) sending_.unlock();
    return all;
  }
  Result<size_t> receive_some(std::span<std::byte> into) override {
    const size_t here = take_ahead(into);
    if (here == into.size()) return here;
    for (;;) {
      const ssize_t count = ::recv(socket_, into.data() + here, into.size() - here, MSG_DONTWAIT);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) return here;
      if (count <= 0) return lost();
      return here + static_cast<size_t>(count);
    }
  }
  Result<MessageHead> receive_head(Duration timeout) override {
    while (have_ - taken_ < cluster::kFrameBytes) {
      if (taken_ == have_) taken_ = have_ = 0;
      const auto room = std::span(ahead_).subspan(have_);
      const bool looks = timeout <= Duration(0);
      if (!looks) (void)cluster::spin_until_readable(socket_, std::chrono::microseconds(50));
      const ssize_t count = ::recv(socket_, room.data(), room.size(), looks ? MSG_DONTWAIT : 0);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) return Status(Errc::kTimeout, "nothing came");
      if (count <= 0) return lost();
      have_ += static_cast<size_t>(count);
    }
    cluster::FrameBytes frame;
    std::memcpy(frame.data(), ahead_.data() + taken_, frame.size());
    taken_ += frame.size();
    return cluster::decode_frame(frame);
  }
  Status receive_body(std::span<std::byte> into, Duration) override {
    const size_t here = take_ahead(into);
    return read(into.subspan(here));
  }
  int poll_fd() const override { return socket_; }
  void set_socket_bytes(size_t bytes) override {
    const int size = static_cast<int>(bytes);
    for (const int option : {SO_SNDBUF, SO_RCVBUF})
      (void)::setsockopt(socket_, SOL_SOCKET, option, &size, sizeof size);
  }
  void close() override { ::shutdown(socket_, SHUT_RDWR); }
  cluster::LinkCounters counters() const override { return {}; }

 private:
  // With sending_.
  Status begin(MessageHead head, std::span<const std::span<const std::byte>> pieces) {
    const auto bytes = cluster::message_bytes(head.kind, pieces);
    if (!bytes) return bytes.status();
    head.bytes = *bytes;
    frame_ = cluster::encode_frame(head);
    parts_.assign(1, {frame_.data(), frame_.size()});
    for (const auto& piece : pieces)
      if (!piece.empty()) parts_.push_back({const_cast<std::byte*>(piece.data()), piece.size()});
    at_ = 0;
    return {};
  }
  Result<cluster::Moved> push(size_t bytes, int flags) {
    cluster::Moved moved;
    while (at_ < parts_.size()) {
      // At most so many bytes in one call: parts in between are small, or the last.
      msghdr message = {};
      message.msg_iov = parts_.data() + at_;
      message.msg_iovlen = std::min<size_t>(parts_.size() - at_, 64);
      const size_t whole = parts_.back().iov_len;
      const bool cut = parts_.size() - at_ <= 64 && whole > bytes;
      if (cut) parts_.back().iov_len = bytes;
      const ssize_t count = ::sendmsg(socket_, &message, MSG_NOSIGNAL | flags);
      if (cut) parts_.back().iov_len = whole;
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) break;
      if (count < 0) return lost();
      moved.bytes += static_cast<size_t>(count);
      for (auto sent = static_cast<size_t>(count); sent > 0;) {
        iovec& part = parts_[at_];
        const size_t taken = std::min(part.iov_len, sent);
        part.iov_base = static_cast<std::byte*>(part.iov_base) + taken;
        part.iov_len -= taken;
        sent -= taken;
        if (part.iov_len == 0) ++at_;
      }
      if (moved.bytes >= bytes) break;
    }
    moved.all = at_ == parts_.size();
    return moved;
  }
  // Of what was taken from the system with a head.
  size_t take_ahead(std::span<std::byte> into) {
    const size_t here = std::min(into.size(), have_ - taken_);
    if (here > 0) std::memcpy(into.data(), ahead_.data() + taken_, here);
    taken_ += here;
    // What is small comes with what follows it.
    if (taken_ + cluster::kFrameBytes > ahead_.size()) {
      std::memmove(ahead_.data(), ahead_.data() + taken_, have_ - taken_);
      have_ -= std::exchange(taken_, 0);
    }
    return here;
  }
  Status read(std::span<std::byte> into) {
    while (!into.empty()) {
      const ssize_t count = ::recv(socket_, into.data(), into.size(), MSG_WAITALL);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return lost();
      into = into.subspan(static_cast<size_t>(count));
    }
    return {};
  }
  Status lost() const { return {Errc::kPeerLost, std::strerror(errno)}; }

  const int socket_;
  const cluster::NodeId peer_;
  std::mutex sending_;
  cluster::FrameBytes frame_;  // these: under sending_
  std::vector<iovec> parts_;
  size_t at_ = 0;
  std::array<std::byte, 4096> ahead_;  // taken from the system, from taken_ to have_ not by the caller
  size_t taken_ = 0, have_ = 0;
};

}  // namespace

std::unique_ptr<cluster::Link> plain_link(int socket, cluster::NodeId peer) {
  return std::make_unique<PlainLink>(socket, std::move(peer));
}

}  // namespace butterfly::bench
