// The Link over a TLS connection whose handshake is done.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>

#include "cluster/transport/frame.h"
#include "cluster/transport/pace.h"
#include "cluster/transport/send_cursor.h"
#include "cluster/transport/tcp.h"
#include "cluster/transport/timed_lock.h"
#include "cluster/transport/tls_channel.h"

namespace butterfly::cluster {

// A Link over a socket with TLS. Threads as Link has it; inside there are three locks, in this order:
// `sending_` for a whole message, `tls_` for one record (OpenSSL's connection has one state for both
// directions), `reason_lock_` for the first error. Nobody sleeps with `tls_` in hand.
class TcpLink final : public Link {
 public:
  TcpLink(std::unique_ptr<TlsChannel> channel, NodeId peer, const TcpOptions& options,
          std::shared_ptr<OpenLinks> open_links);
  ~TcpLink() override;

  const NodeId& peer() const override { return peer_; }
  Status send(MessageHead head, std::span<const std::span<const std::byte>> pieces,
              Duration timeout) override;
  Result<MessageHead> receive_head(Duration timeout) override;
  Status receive_body(std::span<std::byte> into, Duration timeout) override;
  Status receive_part(std::span<std::byte> into, Duration timeout) override;
  Status begin_send(MessageHead head, std::span<const std::span<const std::byte>> pieces) override;
  Result<Moved> send_more(size_t bytes) override;
  Result<size_t> receive_some(std::span<std::byte> into) override;
  bool waiting() const override;
  int poll_fd() const override { return fd_; }
  Duration unacknowledged() const override;
  void beat(Duration every) override;
  Duration silent() const override;
  void set_socket_bytes(size_t bytes) override;
  void close() override;
  LinkCounters counters() const override;

 private:
  using Pieces = std::span<const std::span<const std::byte>>;

  // Takes `sending_`; ended() gives it back.
  Status begin(MessageHead head, Pieces pieces, const Deadline& deadline);
  void ended(bool whole);
  // Until so many bytes of `out_` are handed over, or all, or the deadline.
  Result<Moved> push(size_t bytes, const Deadline& deadline);
  // Fills `into` from `done` on. kTimeout keeps what came.
  Status read_into(std::span<std::byte> into, size_t& done, const Deadline& deadline);
  // One look. kFailed has broken the link.
  TlsChannel::Step read_once(std::span<std::byte> into, size_t& count, bool woken);
  Result<MessageHead> read_frame(const Deadline& deadline);
  Status nothing_came() const;
  Status nothing_taken() const;
  Status wait(TlsChannel::Step step, const Deadline& deadline, std::atomic<int64_t>& waited);

  // The first reason wins, and the socket is shut down, so that everyone else finds out.
  Status break_with(Errc code, std::string text);
  Status why_not() const;  // ok while the link works

  const NodeId peer_;
  const TcpOptions options_;
  const std::shared_ptr<OpenLinks> open_links_;
  const std::unique_ptr<TlsChannel> channel_;
  const int fd_;

  TimedLock sending_;
  SendCursor out_;  // these three: under sending_
  uint32_t out_bytes_ = 0;
  bool record_begun_ = false;    // it waits for room: nothing may come between its parts
  uint64_t records_of_key_ = 0;  // under tls_
  std::mutex tls_;

  FrameBytes frame_;  // of the receiving thread, as the rest of the line
  size_t frame_have_ = 0, body_left_ = 0;
  bool woken_ = false;  // something has come since the last bytes that were taken

  Pace pace_;

  // When something was last handed over or taken, in nanoseconds of the clock; heard_at_ is 0 before the
  // first beat or message behind the hello.
  std::atomic<int64_t> sent_at_{0}, heard_at_{0};

  std::atomic<bool> working_{true};
  mutable std::mutex reason_lock_;
  Status reason_;

  std::atomic<uint64_t> messages_sent_{0}, messages_received_{0}, bytes_sent_{0}, bytes_received_{0};
  std::atomic<int64_t> send_wait_ns_{0}, receive_wait_ns_{0};
};

}  // namespace butterfly::cluster
