#include "cluster/transport/message.h"

#include <gtest/gtest.h>

namespace butterfly::cluster {
namespace {

// A peer that sends the head of a message, and the rest when it likes.
class HalfLink final : public Link {
 public:
  const NodeId& peer() const override { return peer_; }
  Status send(MessageHead, std::span<const std::span<const std::byte>>, Duration) override { return {}; }
  Result<MessageHead> receive_head(Duration) override {
    if (closed) return Status(Errc::kCancelled, "closed");
    return MessageHead{.bytes = 10};
  }
  Status receive_body(std::span<std::byte>, Duration timeout) override {
    waited = timeout;
    return {Errc::kTimeout, "nothing came"};
  }
  void close() override { closed = true; }
  LinkCounters counters() const override { return {}; }

  bool closed = false;
  Duration waited{};

 private:
  NodeId peer_{"key", "slow"};
};

// Taken for a timeout of the head, it would be asked again and again, and answer at once for ever.
TEST(Message, ABodyThatStopsHalfWayEndsTheLink) {
  HalfLink link;
  const auto message = receive_message(link, 100, std::chrono::milliseconds(1), std::chrono::seconds(9));
  EXPECT_EQ(message.status().code(), Errc::kPeerLost) << message.status().text();
  EXPECT_TRUE(link.closed);
  EXPECT_EQ(link.waited, std::chrono::seconds(9));
}

}  // namespace
}  // namespace butterfly::cluster
