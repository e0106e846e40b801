// The Link between two ranks of an MPI job: bytes over MPI, everything else over the TLS link it began as.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>

#include "cluster/transport/frame.h"
#include "cluster/transport/link.h"
#include "cluster/transport/mpi_world.h"
#include "cluster/transport/timed_lock.h"

namespace butterfly::cluster {

// Where the other end of a link over MPI is.
struct MpiPlace {
  size_t rank = 0;
  uint32_t channel = 0;  // chosen by who opened the link
  bool opened = false;   // by this end
};

// Who the peer is, that it lives and that it closed is known from the TLS link underneath, which this owns;
// rows go over MPI, unencrypted, in chunks that need no answer to leave. MPI wakes nobody and bounds nothing:
// a receiver looks, ever more rarely, and a sender has at most kWindow bytes under way that the other end has
// not said to have taken.
//
// Threads and errors as Link has them.
class MpiLink final : public Link {
 public:
  static constexpr size_t kChunk = 32u << 10;
  static constexpr size_t kChunksPosted = 4;
  static constexpr uint64_t kWindow = 8u << 20;

  MpiLink(std::unique_ptr<Link> under, std::shared_ptr<MpiWorld> world, const MpiPlace& place);
  ~MpiLink() override;

  const NodeId& peer() const override { return under_->peer(); }
  Status send(MessageHead head, std::span<const std::span<const std::byte>> pieces,
              Duration timeout) override;
  Result<MessageHead> receive_head(Duration timeout) override;
  Status receive_body(std::span<std::byte> into, Duration timeout) override;
  Status receive_part(std::span<std::byte> into, Duration timeout) override;
  bool waiting() const override;
  Duration unacknowledged() const override { return under_->unacknowledged(); }
  void beat(Duration every) override { under_->beat(every); }
  Duration silent() const override { return waiting() ? Duration{} : under_->silent(); }
  void close() override;
  LinkCounters counters() const override;

 private:
  Status send_chunks(const FrameBytes& frame, std::span<const std::span<const std::byte>> pieces,
                     const Deadline& deadline);
  // Sends a chunk once the window has room for it.
  Status send_chunk(PooledArray<std::byte> chunk, const Deadline& deadline);
  // Fills `into`. kTimeout only before the first byte of it.
  Status read(std::span<std::byte> into, const Deadline& deadline);
  // Waits for a chunk.
  Status wait_for_chunk(const Deadline& deadline);
  // Whether unread bytes are there; with the lock.
  bool chunk_is_here() const;
  // Looks at the TLS link underneath, now and then; an error when it is over and nothing can come any more.
  Status look_under();

  Status break_with(Errc code, std::string text);
  Status why_not() const;

  const std::unique_ptr<Link> under_;
  const std::shared_ptr<MpiWorld> world_;
  const MpiPlace place_;

  TimedLock sending_;
  const std::unique_ptr<MpiOutbox> out_;  // these: under sending_
  const std::unique_ptr<MpiInbox> acks_in_;
  uint64_t sent_ = 0, acknowledged_ = 0;  // bytes

  mutable std::mutex receiving_;  // for one look
  const std::unique_ptr<MpiInbox> in_;
  mutable std::span<const std::byte> unread_;  // of the chunk that is looked at
  mutable bool looked_at_ = false, ended_ = false;
  const std::unique_ptr<MpiOutbox> acks_out_;  // these: of the receiving thread
  uint64_t taken_ = 0, told_ = 0;
  size_t body_left_ = 0;
  TimePoint looked_under_{}, over_since_{};
  Status over_;  // why the link underneath is

  std::atomic<bool> working_{true};
  mutable std::mutex reason_lock_;
  Status reason_;
  std::atomic<uint64_t> messages_sent_{0}, messages_received_{0}, bytes_sent_{0}, bytes_received_{0};
  std::atomic<int64_t> send_wait_ns_{0}, receive_wait_ns_{0};
};

}  // namespace butterfly::cluster
