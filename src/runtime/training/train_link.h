// A link of a training job: messages, and values that are sent from where they lie and received in place.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "cluster/training/train_message.h"
#include "cluster/transport/link.h"
#include "tensor/pooled_array.h"

namespace butterfly::runtime {

using ConstPieces = std::span<const std::span<const std::byte>>;
using Pieces = std::span<const std::span<std::byte>>;

// In one turn of a thread that serves several links in both directions: less than a core's cache holds, so
// that the other end still finds it there, and far more than a call of the system costs.
inline constexpr size_t kTurnBytes = 512 << 10;

// What the values of one message may have.
inline constexpr size_t kTrainValuesBytesMax = (size_t{1} << 30) - cluster::ValuesHead::kBytes;

// Sends may come from several threads; one thread receives. After an error the link is closed.
class TrainLink {
 public:
  // A peer that takes nothing for so long is lost. Health notices earlier, and closes.
  static constexpr Duration kSendMax = std::chrono::minutes(5);
  static constexpr Duration kPartMax = std::chrono::minutes(5);  // for one piece of values
  // Between messages: whether a peer lives is the business of health, which closes links.
  static constexpr Duration kNextMax = std::chrono::hours(24 * 365);

  explicit TrainLink(std::unique_ptr<cluster::Link> link) : link_(std::move(link)) {}

  const cluster::NodeId& peer() const { return link_->peer(); }
  Status send(const cluster::ToTrainMember& message);
  Status send(const cluster::ToTrainLead& message);
  Status send(const cluster::PeerGreeting& greeting);
  Status send_values(cluster::Epoch epoch, uint64_t step, const cluster::ValuesHead& head,
                     ConstPieces pieces);
  class Outgoing;
  Status send_values(const Outgoing& values);

  // A message that goes out without waiting, in parts: send_some() until that was all, or an error.
  // Only where there is a poll_fd(). Others who send wait meanwhile; who gives up closes the link before.
  // kTimeout: others are sending now, and nothing has happened.
  Status begin_values(const Outgoing& values);
  // Some bytes; fewer than kTurnBytes where the system takes no more.
  Result<cluster::Moved> send_some();

  // The next message: its body, or, where values come, what they are; then receive_values(), skip_values() or
  // place_values() must follow.
  struct Incoming {
    cluster::MessageHead head;
    PooledArray<std::byte> body;  // of a message
    cluster::ValuesHead values;   // of values
    size_t value_bytes = 0;       // as they come
    bool is_values = false;
    // Whether they can be so many bytes, once unpacked.
    bool fits(size_t bytes) const {
      return values.packing == cluster::Packing::kNone
                 ? value_bytes == bytes
                 : value_bytes <= cluster::packed_bytes_max(bytes, values.planes);
    }
  };
  // kTimeout: nothing has come, and the link is as it was.
  Result<Incoming> receive(Duration timeout);
  // BF_CHECKs that they fit into the pieces. kCorrupt for packed values that are not exactly those bytes.
  Status receive_values(const Incoming& incoming, Pieces pieces);
  Status skip_values(const Incoming& incoming);
  // Says where they go, which others may then do in parts: receive_some() until that was all, or
  // receive_rest(), from whichever thread has the link by then.
  void place_values(const Incoming& incoming, Pieces pieces);
  void drop_values(const Incoming& incoming);
  // Some bytes; fewer than kTurnBytes where no more have come. Only where there is a poll_fd().
  Result<cluster::Moved> receive_some();
  Status receive_rest();

  // Of the receiving thread: for each piece of what has begun to come; kPartMax at first.
  void set_part_max(Duration part_max) { part_max_ = part_max; }
  // Readable once receive() has something to take, or an end to see; but it does not show what the link has
  // taken from the system already: receive until nothing comes first. -1: there is none.
  int poll_fd() const { return link_->poll_fd(); }
  // 0: as the system has them.
  void set_socket_bytes(size_t bytes) {
    if (bytes > 0) link_->set_socket_bytes(bytes);
  }
  void close() { link_->close(); }
  cluster::LinkCounters counters() const { return link_->counters(); }

 private:
  Status send_body(std::vector<std::byte> body);
  // Status of a message that has begun: the link is over, whatever the reason.
  Status receive_part(std::span<std::byte> into);
  // The next bytes of what is placed; empty: there are none.
  std::span<std::byte> room();
  void came(size_t bytes);
  Status placed_all();

  const std::unique_ptr<cluster::Link> link_;

  // Of who receives.
  Duration part_max_ = kPartMax;
  struct Placed {
    cluster::Packing packing = cluster::Packing::kNone;
    size_t planes = 0;
    std::vector<std::span<std::byte>> pieces = {};
    PooledArray<std::byte> code = {};  // as it comes, where it is packed
    size_t at = 0;                     // the piece,
    size_t offset = 0;                 // and bytes in it, or in the code
    size_t dropped = 0;                // bytes that nobody wants
  };
  Placed placed_;
};

// Values of one message on their way out. `pieces` stay until they are sent.
class TrainLink::Outgoing {
 public:
  Outgoing(cluster::Epoch epoch, uint64_t step, const cluster::ValuesHead& head, ConstPieces pieces);
  Outgoing(Outgoing&&) = default;
  Outgoing& operator=(Outgoing&&) = default;

 private:
  friend class TrainLink;
  cluster::MessageHead head_;
  std::vector<std::byte> front_;
  std::vector<std::span<const std::byte>> all_;  // the front, which does not move with this, and the pieces
};

}  // namespace butterfly::runtime
