// What link.h promises, for every row of the transport table.
#include "cluster/transport/link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <numeric>
#include <thread>

#include "cluster/testing/linked_pair.h"
#include "cluster/testing/test_identity.h"
#include "cluster/transport/frame.h"
#include "cluster/transport/message.h"
#include "cluster/transport/transport_table.h"

namespace butterfly::cluster {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::mpi_job;
using testing::TestIdentity;

constexpr Duration kLong = 30s;  // tests never wait so long unless they fail

std::vector<std::byte> pattern(size_t size, unsigned seed) {
  std::vector<std::byte> out(size);
  for (size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>((i * 31 + seed) ^ (i >> 8));
  return out;
}

// Two nodes, `a` calls `b`.
class LinkTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "mpi" && mpi_job() == nullptr) GTEST_SKIP() << MpiWorld::why_not();
    const auto network =
        std::make_shared<InprocNetwork>(InprocOptions{.messages_max = 4, .bytes_max = 1u << 20});
    const auto make = [&](const std::string& name) {
      const auto tls = identity_.node(name);
      return make_transport(GetParam(),
                            {.self = tls->self(), .network = network, .tls = tls, .mpi = mpi_job()})
          .or_throw();
    };
    a_transport_ = make("anna");
    b_transport_ = make("bert");
    listener_ = b_transport_->listen(testing::place_of(GetParam(), "bert")).or_throw();
    std::tie(a_, b_) = testing::linked_pair(*a_transport_, *b_transport_, *listener_, kLong);
  }

  TestIdentity identity_;
  std::unique_ptr<Transport> a_transport_, b_transport_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Link> a_, b_;
};

INSTANTIATE_TEST_SUITE_P(Every, LinkTest, ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const auto& row : transports()) names.emplace_back(row.name);
                           return names;
                         }()),
                         [](const auto& test) { return test.param; });

TEST_P(LinkTest, KnowsItsPeer) {
  EXPECT_EQ(a_->peer().name, "bert");
  EXPECT_EQ(b_->peer().name, "anna");
  EXPECT_EQ(a_->peer().key.size(), 64u);
  EXPECT_NE(a_->peer().key, b_->peer().key);
}

TEST_P(LinkTest, MessagesOfAnySizeArriveWhole) {
  for (const size_t size :
       {0u, 1u, 31u, 1023u, 1024u, 1025u, 4064u, 4065u, 16384u, 16385u, 100'000u, 3'000'000u}) {
    const auto body = pattern(size, 7);
    auto sent = std::async(std::launch::async, [&] {
      return send_message(*a_, {.kind = MessageKind::kActivations, .epoch = size, .step = 3}, body, kLong);
    });
    const auto head = b_->receive_head(kLong);
    ASSERT_TRUE(head.ok()) << head.status().text();
    EXPECT_EQ(head->kind, MessageKind::kActivations);
    EXPECT_EQ(head->epoch, size);
    EXPECT_EQ(head->step, 3u);
    ASSERT_EQ(head->bytes, size);
    std::vector<std::byte> found(size);
    ASSERT_TRUE(b_->receive_body(found, kLong).ok());
    EXPECT_TRUE(found == body) << size;
    EXPECT_TRUE(sent.get().ok());
  }
}

TEST_P(LinkTest, PiecesJoin) {
  // Small and large ones in any order: whatever is gathered and whatever goes alone.
  const std::vector<std::vector<size_t>> shapes = {{0, 0},
                                                   {10, 20, 30},
                                                   {2000, 3},
                                                   {3, 2000, 3, 2000, 3},
                                                   {16384, 1, 16384},
                                                   {1000, 1000, 1000, 1000, 1000},
                                                   {40000, 0, 40000}};
  for (const auto& shape : shapes) {
    std::vector<std::vector<std::byte>> parts;
    std::vector<std::byte> whole;
    for (const size_t size : shape) {
      parts.push_back(pattern(size, static_cast<unsigned>(parts.size())));
      whole.insert(whole.end(), parts.back().begin(), parts.back().end());
    }
    const std::vector<std::span<const std::byte>> pieces(parts.begin(), parts.end());
    ASSERT_TRUE(a_->send({.kind = MessageKind::kTokens}, pieces, kLong).ok());
    const auto message = receive_message(*b_, 1u << 20, kLong);
    ASSERT_TRUE(message.ok()) << message.status().text();
    EXPECT_TRUE(message->body == whole);
  }
}

// A body that belongs into several places is taken part by part.
TEST_P(LinkTest, BodiesCanBeTakenInParts) {
  for (const std::vector<size_t>& sizes :
       {std::vector<size_t>{0, 5, 0}, {20, 40'000, 3}, {16384, 16384, 1}}) {
    size_t total = 0;
    for (const size_t size : sizes) total += size;
    const auto body = pattern(total, 5);
    ASSERT_TRUE(send_message(*a_, {.kind = MessageKind::kTrainValues}, body, kLong).ok());
    const auto head = b_->receive_head(kLong);
    ASSERT_TRUE(head.ok()) << head.status().text();
    ASSERT_EQ(head->bytes, total);
    std::vector<std::byte> found;
    for (const size_t size : sizes) {
      std::vector<std::byte> part(size);
      ASSERT_TRUE(b_->receive_part(part, kLong).ok());
      found.insert(found.end(), part.begin(), part.end());
    }
    EXPECT_TRUE(found == body);
  }
  EXPECT_EQ(b_->counters().messages_received, 3u);
}

// One thread drives both ends, in both directions, with sockets that hold little.
TEST_P(LinkTest, MessagesGoInPartsWithoutWaiting) {
  if (a_->poll_fd() < 0) {
    EXPECT_EQ(a_->begin_send({.kind = MessageKind::kTrainValues}, {}).code(), Errc::kUnsupported);
    EXPECT_EQ(a_->send_more(1).status().code(), Errc::kUnsupported);
    EXPECT_EQ(a_->receive_some({}).status().code(), Errc::kUnsupported);
    return;
  }
  for (Link* link : {a_.get(), b_.get()}) link->set_socket_bytes(32 << 10);
  struct End {
    Link& link;
    std::vector<std::vector<std::byte>> memory = {};
    std::vector<std::span<const std::byte>> pieces = {};
    std::vector<std::byte> got = {};
    size_t have = 0;
    bool sent = false, head = false, full = false;
  };
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{5000}, size_t{700'000}}) {
    End ends[] = {{*a_}, {*b_}};
    for (End& end : ends) {
      for (size_t left = bytes, size = 1; left > 0; size = size * 3 % 60'013) {
        const size_t part = std::min(left, size);
        end.memory.push_back(pattern(part, static_cast<unsigned>(left)));
        left -= part;
      }
      for (const auto& part : end.memory) end.pieces.emplace_back(part);
      const MessageHead head{.kind = MessageKind::kTrainValues, .epoch = 3, .step = bytes};
      ASSERT_TRUE(end.link.begin_send(head, end.pieces));
      EXPECT_EQ(end.link.begin_send(head, end.pieces).code(), Errc::kTimeout) << "one at a time";
    }
    const TimePoint end_at = SystemClock::instance().now() + kLong;
    const auto done = [&](const End& end) { return end.sent && end.head && end.have == bytes; };
    for (size_t i = 0; !done(ends[0]) || !done(ends[1]); ++i) {
      ASSERT_LT(SystemClock::instance().now(), end_at);
      End& end = ends[i % 2];
      if (!end.sent) {
        const auto moved = end.link.send_more(1 + i % 50'000);
        ASSERT_TRUE(moved) << moved.status().text();
        end.sent = moved->all;
        end.full = end.full || (!moved->all && moved->bytes == 0);
      }
      if (!end.head) {
        const auto head = end.link.receive_head(0s);
        if (!head) {
          ASSERT_EQ(head.status().code(), Errc::kTimeout);
          continue;
        }
        EXPECT_EQ(head->step, bytes);
        ASSERT_EQ(head->bytes, bytes);
        end.head = true;
        end.got.resize(bytes);
      }
      const size_t room = std::min(bytes - end.have, 1 + i * 7 % 30'000);
      const auto count = end.link.receive_some(std::span(end.got).subspan(end.have, room));
      ASSERT_TRUE(count) << count.status().text();
      ASSERT_LE(*count, room);
      end.have += *count;
    }
    for (const End& end : ends) {
      const End& other = end.link.peer().name == "bert" ? ends[1] : ends[0];
      EXPECT_EQ(end.full, bytes > 100'000) << "sockets hold more than they were told";
      std::vector<std::byte> all;
      for (const auto& part : other.memory) all.insert(all.end(), part.begin(), part.end());
      EXPECT_TRUE(end.got == all);
      EXPECT_EQ(end.link.counters().bytes_sent, end.link.counters().bytes_received);
    }
  }
}

// Who sends and waits stands behind a message that goes in parts, and gets its turn, or hears of the end.
TEST_P(LinkTest, OthersWaitForAMessageInParts) {
  if (a_->poll_fd() < 0) return;
  const std::vector<std::byte> large = pattern(8 << 20, 1), small = pattern(100, 2);
  for (const bool ends_well : {true, false}) {
    const std::array<std::span<const std::byte>, 1> pieces{large}, other{small};
    ASSERT_TRUE(a_->begin_send({.kind = MessageKind::kTrainValues, .step = 1}, pieces));
    ASSERT_TRUE(a_->send_more(1000));
    auto sender = std::async(std::launch::async, [&] {
      return a_->send({.kind = MessageKind::kTrainValues, .step = 2}, other, kLong);
    });
    a_->beat(0s);  // does not wait, and does not come between
    EXPECT_EQ(sender.wait_for(20ms), std::future_status::timeout);
    if (!ends_well) {
      a_->close();
      EXPECT_FALSE(a_->send_more(1000));
      EXPECT_FALSE(sender.get());
      return;
    }
    std::vector<std::byte> got(large.size()), then(small.size());
    auto receiver = std::async(std::launch::async, [&] {
      EXPECT_EQ(b_->receive_head(kLong)->step, 1u);
      EXPECT_TRUE(b_->receive_body(got, kLong));
      EXPECT_EQ(b_->receive_head(kLong)->step, 2u);
      EXPECT_TRUE(b_->receive_body(then, kLong));
    });
    for (;;) {
      const auto moved = a_->send_more(SIZE_MAX);
      ASSERT_TRUE(moved);
      if (moved->all) break;
      std::this_thread::yield();
    }
    EXPECT_TRUE(sender.get());
    receiver.get();
    EXPECT_TRUE(got == large && then == small);
  }
}

TEST_P(LinkTest, TimeoutLeavesTheLinkAsItWas) {
  EXPECT_EQ(b_->receive_head(1ms).status().code(), Errc::kTimeout);
  EXPECT_EQ(b_->receive_head(0ms).status().code(), Errc::kTimeout);
  ASSERT_TRUE(send_message(*a_, {.kind = MessageKind::kHealth, .step = 9}, {}, kLong).ok());
  const auto head = b_->receive_head(kLong);
  ASSERT_TRUE(head.ok());
  EXPECT_EQ(head->step, 9u);
}

TEST_P(LinkTest, BothWaysAtOnceFromSeveralThreads) {
  constexpr int kSenders = 3, kEach = 200;
  const auto body = pattern(20'000, 1);
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (Link* link : {a_.get(), b_.get()}) {
    for (int s = 0; s < kSenders; ++s)
      threads.emplace_back([&, link, s] {
        for (int i = 0; i < kEach; ++i) {
          const size_t size = static_cast<size_t>(i * 97 + s) % body.size();
          const MessageHead head{.kind = MessageKind::kActivations,
                                 .epoch = static_cast<uint64_t>(s),
                                 .step = static_cast<uint64_t>(i)};
          if (!send_message(*link, head, std::span(body).first(size), kLong).ok()) ++failures;
        }
      });
    threads.emplace_back([&, link] {
      uint64_t next[kSenders] = {};
      for (int i = 0; i < kSenders * kEach; ++i) {
        const auto message = receive_message(*link, body.size(), kLong);
        if (!message.ok()) {
          ++failures;
          return;
        }
        const MessageHead& head = message->head;
        const size_t size = static_cast<size_t>(head.step * 97 + head.epoch) % body.size();
        // Each sender's messages keep their order, and none is mixed with another.
        if (head.epoch >= kSenders || head.step != next[head.epoch]++ || message->body.size() != size ||
            !std::equal(message->body.begin(), message->body.end(), body.begin()))
          ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  const LinkCounters counters = a_->counters();
  EXPECT_EQ(counters.messages_sent, kSenders * kEach);
  EXPECT_EQ(counters.messages_received, kSenders * kEach);
  EXPECT_EQ(counters.bytes_sent, b_->counters().bytes_received);
}

TEST_P(LinkTest, CountsHeadsAndBodies) {
  ASSERT_TRUE(send_message(*a_, {.kind = MessageKind::kControl}, pattern(100, 0), kLong).ok());
  ASSERT_TRUE(receive_message(*b_, 100, kLong).ok());
  EXPECT_EQ(a_->counters().messages_sent, 1u);
  EXPECT_EQ(a_->counters().bytes_sent, kFrameBytes + 100);
  EXPECT_EQ(b_->counters().messages_received, 1u);
  EXPECT_EQ(b_->counters().bytes_received, kFrameBytes + 100);
}

TEST_P(LinkTest, WhoDoesNotReceiveStopsTheSender) {
  // No receiver: bounded memory means that a send must wait in the end, and the wait has an end too.
  const auto body = pattern(1u << 20, 0);
  Status status;
  for (int i = 0; i < 200 && status.ok(); ++i)
    status = send_message(*a_, {.kind = MessageKind::kWeights}, body, 20ms);
  EXPECT_EQ(status.code(), Errc::kTimeout);
  EXPECT_NE(send_message(*a_, {.kind = MessageKind::kHealth}, {}, kLong).code(), Errc::kOk)
      << "the link is broken";
}

TEST_P(LinkTest, TooMuchForItsKindIsNotSentAndBreaksNothing) {
  const auto body = pattern(message_bytes_max(MessageKind::kHealth) + 1, 0);
  EXPECT_EQ(send_message(*a_, {.kind = MessageKind::kHealth}, body, kLong).code(), Errc::kInvalidArgument);
  EXPECT_TRUE(send_message(*a_, {.kind = MessageKind::kHealth}, {}, kLong).ok());
  EXPECT_TRUE(b_->receive_head(kLong).ok());
}

TEST_P(LinkTest, MoreThanTheReceiverExpectsClosesTheLink) {
  ASSERT_TRUE(send_message(*a_, {.kind = MessageKind::kControl}, pattern(101, 0), kLong).ok());
  const auto message = receive_message(*b_, 100, kLong);
  EXPECT_EQ(message.status().code(), Errc::kCorrupt);
  EXPECT_THAT(message.status().text(), HasSubstr("control of 101 bytes, at most 100"));
  EXPECT_EQ(a_->receive_head(kLong).status().code(), Errc::kPeerLost);
}

TEST_P(LinkTest, CloseWakesWhoReceives) {
  auto received = std::async(std::launch::async, [&] { return a_->receive_head(kLong).status().code(); });
  std::this_thread::sleep_for(5ms);
  a_->close();
  a_->close();
  EXPECT_EQ(received.get(), Errc::kCancelled);
  EXPECT_EQ(send_message(*a_, {.kind = MessageKind::kHealth}, {}, kLong).code(), Errc::kCancelled);
}

TEST_P(LinkTest, CloseWakesWhoSends) {
  auto sent = std::async(std::launch::async, [&] {
    const auto body = pattern(1u << 20, 0);
    Status status;
    while (status.ok()) status = send_message(*a_, {.kind = MessageKind::kWeights}, body, kLong);
    return status.code();
  });
  std::this_thread::sleep_for(20ms);
  a_->close();
  EXPECT_EQ(sent.get(), Errc::kCancelled);
}

TEST_P(LinkTest, APeerThatClosesIsLostAtOnce) {
  ASSERT_TRUE(send_message(*b_, {.kind = MessageKind::kHealth, .step = 1}, {}, kLong).ok());
  auto received = std::async(std::launch::async, [&] {
    if (!a_->receive_head(kLong).ok()) return Errc::kCorrupt;  // what was sent before still comes
    return a_->receive_head(kLong).status().code();
  });
  std::this_thread::sleep_for(5ms);
  b_.reset();
  EXPECT_EQ(received.get(), Errc::kPeerLost);
  Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i)
    status = send_message(*a_, {.kind = MessageKind::kHealth}, {}, kLong);
  EXPECT_EQ(status.code(), Errc::kPeerLost);
}

TEST_P(LinkTest, AnotherNodeThanExpectedIsRefused) {
  auto accepting = std::async(std::launch::async, [&] {
    while (listener_->accept(kLong).status().code() != Errc::kCancelled) continue;
  });
  const auto link = a_transport_->connect(listener_->address(), std::string(64, '0'), kLong);
  EXPECT_EQ(link.status().code(), Errc::kInvalidArgument);
  EXPECT_THAT(link.status().text(), HasSubstr("is node bert"));
  // The same caller with the right key.
  const auto again = a_transport_->connect(listener_->address(), a_->peer().key, kLong);
  EXPECT_TRUE(again.ok()) << again.status().text();
  listener_->close();
}

TEST_P(LinkTest, ListenersTimeOutAndClose) {
  EXPECT_EQ(listener_->accept(1ms).status().code(), Errc::kTimeout);
  auto accepted = std::async(std::launch::async, [&] { return listener_->accept(kLong).status().code(); });
  std::this_thread::sleep_for(5ms);
  listener_->close();
  EXPECT_EQ(accepted.get(), Errc::kCancelled);
}

TEST_P(LinkTest, NobodyThereIsSaid) {
  const std::string address = listener_->address();
  listener_.reset();
  EXPECT_EQ(a_transport_->connect(address, "", kLong).status().code(), Errc::kPeerLost);
}

TEST(TransportTable, RowsObjectInWords) {
  EXPECT_THAT(make_transport("tcp", {}).status().text(), HasSubstr("init or join"));
  EXPECT_THAT(make_transport("inproc", {}).status().text(), HasSubstr("network"));
  EXPECT_THAT(make_transport("carrier pigeon", {}).status().text(), HasSubstr("inproc, tcp, mpi"));
}

}  // namespace
}  // namespace butterfly::cluster
