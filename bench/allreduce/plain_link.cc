#include "allreduce/plain_link.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <vector>

#include "cluster/transport/frame.h"

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
  Result<MessageHead> receive_head(Duration) override {
    cluster::FrameBytes frame;
    if (Status status = read(frame); !status) return status;
    return cluster::decode_frame(frame);
  }
  Status receive_body(std::span<std::byte> into, Duration) override { return read(into); }
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
};

}  // namespace

std::unique_ptr<cluster::Link> plain_link(int socket, cluster::NodeId peer) {
  return std::make_unique<PlainLink>(socket, std::move(peer));
}

}  // namespace butterfly::bench
