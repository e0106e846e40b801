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
    const auto bytes = cluster::message_bytes(head.kind, pieces);
    if (!bytes) return bytes.status();
    head.bytes = *bytes;
    const cluster::FrameBytes frame = cluster::encode_frame(head);
    std::vector<iovec> parts{{const_cast<std::byte*>(frame.data()), frame.size()}};
    for (const auto& piece : pieces)
      if (!piece.empty()) parts.push_back({const_cast<std::byte*>(piece.data()), piece.size()});
    const std::lock_guard lock(sending_);
    for (size_t at = 0; at < parts.size();) {
      msghdr message = {};
      message.msg_iov = parts.data() + at;
      message.msg_iovlen = std::min<size_t>(parts.size() - at, 64);
      ssize_t sent = ::sendmsg(socket_, &message, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) return lost();
      while (sent > 0) {
        const auto taken = std::min<size_t>(parts[at].iov_len, static_cast<size_t>(sent));
        parts[at].iov_base = static_cast<std::byte*>(parts[at].iov_base) + taken;
        parts[at].iov_len -= taken;
        sent -= static_cast<ssize_t>(taken);
        if (parts[at].iov_len == 0) ++at;
      }
    }
    return {};
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
    const size_t here = std::min(into.size(), have_ - taken_);
    if (here > 0) std::memcpy(into.data(), ahead_.data() + taken_, here);
    taken_ += here;
    // What is small comes with what follows it.
    if (taken_ + cluster::kFrameBytes > ahead_.size()) {
      std::memmove(ahead_.data(), ahead_.data() + taken_, have_ - taken_);
      have_ -= std::exchange(taken_, 0);
    }
    return read(into.subspan(here));
  }
  int poll_fd() const override { return socket_; }
  void close() override { ::shutdown(socket_, SHUT_RDWR); }
  cluster::LinkCounters counters() const override { return {}; }

 private:
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
  std::array<std::byte, 4096> ahead_;  // taken from the system, from taken_ to have_ not by the caller
  size_t taken_ = 0, have_ = 0;
};

}  // namespace

std::unique_ptr<cluster::Link> plain_link(int socket, cluster::NodeId peer) {
  return std::make_unique<PlainLink>(socket, std::move(peer));
}

}  // namespace butterfly::bench
