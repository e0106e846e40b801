// Messages between two nodes. A Link knows nothing of models; what a message may hold is its receiver's
// business.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "cluster/identity/node_id.h"

namespace butterfly::cluster {

enum class MessageKind : uint8_t {
  kHello = 1,        // first on every link, both ways: purpose, version, numerics id
  kControl = 2,      // membership, plans, tokens of joining; small
  kHealth = 3,       // heartbeat with a step counter
  kTokens = 4,       // a step: cache commands and rows
  kActivations = 5,  // rows between stages
  kResult = 6,       // what the last stage answers
  kWeights = 7,      // a chunk of a model file
  kTraining = 8,     // orders and reports of a training job; small
  kTrainValues = 9,  // its gradients, weights, moments and inputs
  kExchange = 10,    // between members of a stage: their parts of a layer
  kBeat = 11,        // nothing but a sign that the link passes messages; links keep it to themselves
  kCache = 12,       // pages of a cache, between nodes whose layers moved
};

// Comes before every body. `epoch` is the plan's number: receivers drop and count what is older than theirs.
struct MessageHead {
  MessageKind kind = MessageKind::kControl;
  uint64_t epoch = 0;
  uint64_t step = 0;
  uint32_t bytes = 0;  // of the body; never trusted: the receiver compares it with what it expects
};

// What a call moved that does not wait.
struct Moved {
  size_t bytes = 0;
  bool all = false;  // nothing is left
};

// What went over a link since it was opened. `send_wait` and `receive_wait` are time blocked, not time on the
// wire.
struct LinkCounters {
  uint64_t messages_sent = 0;
  uint64_t messages_received = 0;
  uint64_t bytes_sent = 0;  // heads included
  uint64_t bytes_received = 0;
  Duration send_wait{};
  Duration receive_wait{};
};

// One ordered, reliable stream of messages to one peer, whose identity is proved.
//
// send() may be called by several threads: messages do not mix. receive_head() and receive_body() belong to
// one thread. After any error but a timeout of receive_head() the stream is broken: close it and open
// another.
class Link {
 public:
  virtual ~Link() = default;

  // Who is at the other end, by its certificate.
  virtual const NodeId& peer() const = 0;

  // Sends `head` (its `bytes` is set here) and the pieces as one message. Does not copy the pieces. Returns
  // when all is handed to the system; kTimeout or kPeerLost break the link.
  virtual Status send(MessageHead head, std::span<const std::span<const std::byte>> pieces,
                      Duration timeout) = 0;

  // The next message's head. kTimeout leaves the link as it was: nothing has been taken from it.
  virtual Result<MessageHead> receive_head(Duration timeout) = 0;

  // The body that belongs to the last head. BF_CHECKs into.size() == head.bytes: look at the head first.
  virtual Status receive_body(std::span<std::byte> into, Duration timeout) = 0;
  // The next bytes of that body, where it does not lie in one piece: BF_CHECKs that it has so many left. All
  // of them must be taken before the next head.
  virtual Status receive_part(std::span<std::byte> into, Duration timeout) {
    return receive_body(into, timeout);
  }

  // ---- Without waiting: for a thread that drives several links, in both directions. Only links that have a
  // poll_fd() can do it ----

  // Begins to send a message as send() would; send_more() hands it over. The pieces, and the list of them,
  // stay until then. kTimeout: others are sending, and nothing has happened. From now on others wait, so
  // whoever has begun calls send_more() until that was all or an error; who gives up calls close() before.
  virtual Status begin_send(MessageHead, std::span<const std::span<const std::byte>>) { return no_parts(); }
  // Some of it: so many bytes, or a record more, or fewer where the system takes no more for now.
  virtual Result<Moved> send_more(size_t) { return no_parts(); }
  // Bytes of the body that are here: how many, fewer than there is room for where no more have come.
  // BF_CHECKs as receive_part() does.
  virtual Result<size_t> receive_some(std::span<std::byte>) { return no_parts(); }

  // Whether something has come that nobody has taken yet; false when the link is over, or cannot tell. From
  // any thread: for those who watch over the one that should take it.
  virtual bool waiting() const { return false; }

  // For those who wait for several links: readable once receive_head() would find something, or an end. What
  // the link has taken from the system already does not show in it, so a link is read until kTimeout first.
  // -1: there is none.
  virtual int poll_fd() const { return -1; }

  // How long the other machine has acknowledged nothing while something was on its way to it; zero when all
  // is acknowledged, or when the link cannot tell. A program that stands still is not the same: its machine
  // acknowledges. From any thread.
  virtual Duration unacknowledged() const { return {}; }

  // Shows the other end that this direction works, unless something was sent within `every`. Does not wait: a
  // link that is full has something to show. From any thread, now and then; links that cannot fail in silence
  // do nothing.
  virtual void beat(Duration every) { (void)every; }

  // For how long nothing has come, neither message nor beat, and nothing waits to be taken; zero before the
  // first of them behind the hello: who has not begun is not silent. A machine on the way can acknowledge
  // what it does not pass on, so this says more than unacknowledged(), of the other direction. A link whose
  // bytes crawl is as good as silent, for so long (Pace). From any thread.
  virtual Duration silent() const { return {}; }

  // Room of the system for what is on its way, in each direction. Links without sockets do nothing.
  virtual void set_socket_bytes(size_t bytes) { (void)bytes; }

  // Wakes anyone blocked above, who then gets kCancelled. Safe to call twice, and from any thread.
  virtual void close() = 0;

  virtual LinkCounters counters() const = 0;

 private:
  static Status no_parts() { return {Errc::kUnsupported, "[link] it can only wait"}; }
};

// Accepts links. One thread.
class Listener {
 public:
  virtual ~Listener() = default;
  // Where others connect: "127.0.0.1:4711".
  virtual const std::string& address() const = 0;
  // kTimeout when nobody came; peers that cannot prove who they are never get this far.
  virtual Result<std::unique_ptr<Link>> accept(Duration timeout) = 0;
  virtual void close() = 0;
};

}  // namespace butterfly::cluster
