// The port against those who do not belong: each is refused, and the next good caller is served.
#include "cluster/transport/tcp.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

#include "cluster/identity/openssl_ptr.h"
#include "cluster/testing/test_identity.h"
#include "cluster/transport/frame.h"
#include "cluster/transport/hello.h"
#include "cluster/transport/message.h"
#include "cluster/transport/tls_handshake.h"

namespace butterfly::cluster {
namespace {

using namespace std::chrono_literals;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::TestIdentity;

constexpr Duration kLong = 30s;

Deadline in(Duration time) { return {SystemClock::instance(), time}; }

// The server "bert": a thread that accepts until the test ends.
class TcpTest : public ::testing::Test {
 protected:
  explicit TcpTest(TcpOptions options = {})
      : roster_(std::make_shared<Roster>(identity_.folder)),
        bert_(identity_.node("bert", roster_)),
        listener_(tcp_listen(bert_, "127.0.0.1:0", options).or_throw()) {
    thread_ = std::thread([this] {
      for (;;) {
        auto link = listener_->accept(kLong);
        if (link.status().code() == Errc::kCancelled) return;
        if (!link.ok()) continue;
        const std::lock_guard lock(mutex_);
        accepted_.push_back(*std::move(link));
        changed_.notify_all();
      }
    });
  }
  ~TcpTest() override {
    listener_->close();
    thread_.join();
  }

  std::unique_ptr<Link> next_accepted() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !accepted_.empty(); });
    auto link = std::move(accepted_.front());
    accepted_.erase(accepted_.begin());
    return link;
  }
  size_t waiting() {
    const std::lock_guard lock(mutex_);
    return accepted_.size();
  }

  Result<std::unique_ptr<Link>> connect(const std::shared_ptr<const NodeTls>& tls) {
    return tcp_connect(tls, listener_->address(), "", kLong);
  }

  // A link of a good node, and bert's end of it.
  std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> good_pair() {
    auto link = connect(identity_.node("anna"));
    EXPECT_TRUE(link.ok()) << link.status().text();
    return {*std::move(link), next_accepted()};
  }
  void expect_others_are_served() {
    auto [a, b] = good_pair();
    EXPECT_TRUE(send_message(*a, {.kind = MessageKind::kHealth, .step = 5}, {}, kLong).ok());
    const auto head = b->receive_head(kLong);
    ASSERT_TRUE(head.ok()) << head.status().text();
    EXPECT_EQ(head->step, 5u);
  }

  Socket raw() { return connect_socket(listener_->address(), in(kLong)).or_throw(); }
  // All that the server says until it closes; fails when it does not.
  static std::string until_closed(const Socket& socket) {
    std::string out;
    for (;;) {
      if (!wait_ready(socket.fd(), POLLIN, in(kLong))) {
        ADD_FAILURE() << "the server did not close";
        return out;
      }
      char part[512];
      const ssize_t count = ::recv(socket.fd(), part, sizeof part, 0);
      if (count <= 0) return out;
      out.append(part, static_cast<size_t>(count));
    }
  }
  static void put(const Socket& socket, std::string_view bytes) {
    ASSERT_EQ(::send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  static bool is_alert(const std::string& bytes) { return bytes.size() >= 7 && bytes[0] == 21; }

  // What a client hears whose certificate the server does not like: nothing but an alert or the end.
  std::string refusal_of(const std::shared_ptr<const NodeTls>& tls) {
    auto link = connect(tls);
    if (!link.ok()) return link.status().text();
    const auto head = (*link)->receive_head(kLong);
    EXPECT_EQ(head.status().code(), Errc::kPeerLost);
    return head.status().text();
  }

  TestIdentity identity_;
  std::shared_ptr<Roster> roster_;
  std::shared_ptr<NodeTls> bert_;
  std::unique_ptr<Listener> listener_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Link>> accepted_;
  std::thread thread_;
};

TEST_F(TcpTest, GarbageIsClosed) {
  const Socket socket = raw();
  put(socket, std::string(1000, '\xff'));
  const std::string said = until_closed(socket);
  EXPECT_TRUE(said.empty() || is_alert(said));
  expect_others_are_served();
}

TEST_F(TcpTest, PlainHttpIsClosed) {
  const Socket socket = raw();
  put(socket, "GET / HTTP/1.1\r\nHost: butterfly\r\n\r\n");
  const std::string said = until_closed(socket);
  EXPECT_TRUE(said.empty() || is_alert(said)) << said;
  expect_others_are_served();
}

TEST_F(TcpTest, APlainFrameIsClosed) {
  const Socket socket = raw();
  const FrameBytes frame = encode_frame({.kind = MessageKind::kHello});
  put(socket, {reinterpret_cast<const char*>(frame.data()), frame.size()});
  const std::string said = until_closed(socket);
  EXPECT_TRUE(said.empty() || is_alert(said));
  EXPECT_EQ(waiting(), 0u);
}

TEST_F(TcpTest, AnExpiredCertificateIsRefused) {
  const auto old =
      std::make_shared<NodeTls>(identity_.credentials("old", wall_now() - std::chrono::hours(48), 24h));
  EXPECT_THAT(refusal_of(old), HasSubstr("certificate expired"));
  EXPECT_EQ(waiting(), 0u);
  expect_others_are_served();
}

TEST_F(TcpTest, ACertificateOfAnotherClusterIsRefused) {
  const TestIdentity other("other");
  // It knows bert's authority, and has a certificate of its own.
  Credentials mixed = other.credentials("mallory");
  mixed.authority = identity_.authority.certificate();
  EXPECT_THAT(refusal_of(std::make_shared<NodeTls>(mixed)), HasSubstr("unknown ca"));
  // With its own authority alone it does not even believe bert.
  EXPECT_THAT(refusal_of(other.node("mallory")), HasSubstr("certificate verify failed"));
  EXPECT_EQ(waiting(), 0u);
  expect_others_are_served();
}

TEST_F(TcpTest, AnotherClusterOfTheSameNameIsRefused) {
  const TestIdentity other("test");
  Credentials mixed = other.credentials("anna");
  mixed.authority = identity_.authority.certificate();
  EXPECT_THAT(refusal_of(std::make_shared<NodeTls>(mixed)),
              AnyOf(HasSubstr("unknown ca"), HasSubstr("decrypt error"), HasSubstr("bad certificate")));
  EXPECT_EQ(waiting(), 0u);
}

TEST_F(TcpTest, ASelfSignedCertificateIsRefused) {
  const PrivateKey key = PrivateKey::make();
  const Certificate self = make_authority_certificate(key, "anna", wall_now(), 24h);
  EXPECT_THAT(
      refusal_of(std::make_shared<NodeTls>(Credentials{identity_.authority.certificate(), self, key})),
      HasSubstr("unknown ca"));
  EXPECT_EQ(waiting(), 0u);
  expect_others_are_served();
}

TEST_F(TcpTest, ANodeCannotSignOthers) {
  // A member that plays authority: its certificate says that it is none.
  const Credentials member = identity_.credentials("mallory");
  const PrivateKey key = PrivateKey::make();
  const Certificate forged =
      make_node_certificate(member.own, member.key, {.key = key.fingerprint(), .name = "eve"}, key.get(),
                            key.fingerprint(), wall_now(), 24h);
  EXPECT_THAT(
      refusal_of(std::make_shared<NodeTls>(Credentials{identity_.authority.certificate(), forged, key})),
      HasSubstr("unknown ca"));
  EXPECT_EQ(waiting(), 0u);
}

TEST_F(TcpTest, WhoShowsNoCertificateGetsAnAlert) {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  static constexpr unsigned char kAlpn[] =
      "\x07"
      "bf-link";
  ASSERT_EQ(SSL_CTX_set_alpn_protos(context.get(), kAlpn, sizeof kAlpn - 1), 0);
  auto channel = tls_connect(context, listener_->address(), in(kLong), {}).or_throw();
  std::byte byte;
  size_t count = 0;
  TlsChannel::Step step;
  while ((step = channel->read({&byte, 1}, count)) == TlsChannel::Step::kWantRead)
    ASSERT_TRUE(wait_ready(channel->socket().fd(), POLLIN, in(kLong)));
  EXPECT_EQ(step, TlsChannel::Step::kFailed);
  EXPECT_THAT(channel->reason(), HasSubstr("certificate required"));
  EXPECT_EQ(waiting(), 0u);
}

TEST_F(TcpTest, OldTlsIsRefused) {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  SSL_CTX_set_max_proto_version(context.get(), TLS1_2_VERSION);
  const auto channel = tls_connect(context, listener_->address(), in(kLong), {});
  ASSERT_FALSE(channel.ok());
  EXPECT_THAT(channel.status().text(), HasSubstr("alert protocol version"));
  expect_others_are_served();
}

TEST_F(TcpTest, WhoNamesNoProtocolOrJoinsWhereNobodyCanIsRefused) {
  const auto tls = identity_.node("anna");
  const TlsContext context = tls->client();
  for (const char* alpn : {"",
                           "\x07"
                           "bf-join",
                           "\x02"
                           "h2"}) {
    std::shared_ptr<SSL_CTX> other(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
    const Credentials own = tls->credentials();
    SSL_CTX_use_certificate(other.get(), own.own.get());
    SSL_CTX_use_PrivateKey(other.get(), own.key.get());
    SSL_CTX_set_alpn_protos(other.get(), reinterpret_cast<const unsigned char*>(alpn),
                            static_cast<unsigned>(std::strlen(alpn)));
    const auto channel = tls_connect(other, listener_->address(), in(kLong), {});
    if (*alpn != 0)
      EXPECT_THAT(channel.status().text(), HasSubstr("alert no application protocol"));
    else
      until_closed((*channel)->socket());
  }
  EXPECT_EQ(waiting(), 0u);
  expect_others_are_served();
}

struct ImpatientTcpTest : TcpTest {
  ImpatientTcpTest() : TcpTest({.handshake_timeout = 100ms, .half_open_max = 4}) {}
};

TEST_F(ImpatientTcpTest, HalfAHandshakeIsDroppedInTime) {
  const Socket silent = raw();
  const Socket half = raw();
  put(half,
      std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11));  // the beginning of a ClientHello
  EXPECT_EQ(until_closed(silent), "");
  EXPECT_EQ(until_closed(half), "");
  expect_others_are_served();
}

TEST_F(ImpatientTcpTest, ManyHalfOpenOnesPushOutThemselves) {
  std::vector<Socket> sockets;
  for (int i = 0; i < 20; ++i) sockets.push_back(raw());
  EXPECT_EQ(until_closed(sockets.front()), "");
  for (const Socket& socket : sockets) until_closed(socket);
  expect_others_are_served();
}

// A good node that sends bad frames: what arrives over TLS is still input.
class BadFrameTest : public TcpTest {
 protected:
  // Sends bytes as they are, closes if asked to, and returns what bert's end makes of them.
  Status sent_raw(std::span<const std::byte> bytes, bool then_close) {
    const auto tls = identity_.node("anna");
    auto channel = tls_connect(tls->client(), listener_->address(), in(kLong), {}).or_throw();
    const auto theirs = next_accepted();
    size_t count = 0;
    EXPECT_EQ(channel->write(bytes, false, count), TlsChannel::Step::kDone);
    if (then_close) channel.reset();
    const auto message = receive_message(*theirs, 1u << 20, kLong);
    EXPECT_FALSE(message.ok());
    EXPECT_FALSE(theirs->receive_head(kLong).ok()) << "the link is broken";
    EXPECT_FALSE(send_message(*theirs, {.kind = MessageKind::kHealth}, {}, kLong).ok());
    if (channel != nullptr) until_closed(channel->socket());
    return message.status();
  }
  Status sent_head(MessageHead head) { return sent_raw(encode_frame(head), false); }
};

TEST_F(BadFrameTest, CloseTheLinkAndNothingElse) {
  auto [a, b] = good_pair();  // stays open through all of it

  Status status = sent_head({.kind = MessageKind::kHealth, .bytes = 1u << 30});
  EXPECT_EQ(status.code(), Errc::kCorrupt);
  EXPECT_THAT(status.text(), HasSubstr("health of 1073741824 bytes, at most 4096"));

  status = sent_head({.kind = static_cast<MessageKind>(77)});
  EXPECT_EQ(status.code(), Errc::kCorrupt);
  EXPECT_THAT(status.text(), HasSubstr("kind 77 does not exist"));

  status = sent_raw(std::vector<std::byte>(100, std::byte{0x55}), false);
  EXPECT_EQ(status.code(), Errc::kCorrupt);
  EXPECT_THAT(status.text(), HasSubstr("begins with 55555555"));

  std::vector<std::byte> cut(kFrameBytes + 50);
  const FrameBytes frame = encode_frame({.kind = MessageKind::kControl, .bytes = 100});
  std::copy(frame.begin(), frame.end(), cut.begin());
  EXPECT_EQ(sent_raw(cut, true).code(), Errc::kPeerLost);
  EXPECT_EQ(sent_raw(std::span(cut).first(10), true).code(), Errc::kPeerLost);

  ASSERT_TRUE(send_message(*a, {.kind = MessageKind::kHealth, .step = 8}, {}, kLong).ok());
  EXPECT_EQ(b->receive_head(kLong)->step, 8u);
}

TEST_F(TcpTest, ABodyThatDoesNotComeInTimeBreaksTheLink) {
  const auto tls = identity_.node("anna");
  auto channel = tls_connect(tls->client(), listener_->address(), in(kLong), {}).or_throw();
  const auto theirs = next_accepted();
  size_t count = 0;
  ASSERT_EQ(channel->write(encode_frame({.kind = MessageKind::kControl, .bytes = 100}), false, count),
            TlsChannel::Step::kDone);
  ASSERT_EQ(theirs->receive_head(kLong)->bytes, 100u);
  std::vector<std::byte> body(100);
  const Status status = theirs->receive_body(body, 5ms);
  EXPECT_EQ(status.code(), Errc::kTimeout);
  EXPECT_THAT(status.text(), HasSubstr("0 of 100 bytes"));
  EXPECT_EQ(theirs->receive_head(kLong).status().code(), Errc::kTimeout) << "broken, for the first reason";
}

TEST_F(TcpTest, AHeadThatComesInPartsIsOneHead) {
  const auto tls = identity_.node("anna");
  auto channel = tls_connect(tls->client(), listener_->address(), in(kLong), {}).or_throw();
  const auto theirs = next_accepted();
  const FrameBytes frame = encode_frame({.kind = MessageKind::kControl, .step = 4});
  for (size_t i = 0; i < kFrameBytes; i += 8) {
    EXPECT_EQ(theirs->receive_head(2ms).status().code(), Errc::kTimeout);
    size_t count = 0;
    ASSERT_EQ(channel->write(std::span(frame).subspan(i, 8), false, count), TlsChannel::Step::kDone);
  }
  EXPECT_EQ(theirs->receive_head(kLong)->step, 4u);
}

TEST_F(TcpTest, BeatsAreHeardByTheLinkAlone) {
  auto [a, b] = good_pair();
  EXPECT_EQ(b->silent(), Duration(0)) << "who has not begun is not silent";
  a->beat(Duration(0));
  a->beat(Duration(0));
  ASSERT_TRUE(send_message(*a, {.kind = MessageKind::kHealth, .step = 8}, {}, kLong).ok());
  const auto head = b->receive_head(kLong);
  ASSERT_TRUE(head.ok()) << head.status().text();
  EXPECT_EQ(head->step, 8u);
  EXPECT_EQ(b->counters().messages_received, 1u);
  EXPECT_EQ(b->receive_head(20ms).status().code(), Errc::kTimeout);
  EXPECT_GE(b->silent(), 20ms);
}

TEST_F(TcpTest, WhatWaitsToBeTakenIsNoSilence) {
  auto [a, b] = good_pair();
  a->beat(Duration(0));
  EXPECT_EQ(b->receive_head(20ms).status().code(), Errc::kTimeout);
  EXPECT_GE(b->silent(), Duration(1));
  a->beat(Duration(0));
  const auto until = in(kLong);
  while (!b->waiting() && !until.expired()) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(b->silent(), Duration(0)) << "its reader computes, and is to blame itself";
}

// Passes what comes on to another port; when it is slow, one byte in 2 ms.
class Forwarder {
 public:
  explicit Forwarder(const std::string& to) : to_(to), listening_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    EXPECT_EQ(::bind(listening_, reinterpret_cast<sockaddr*>(&at), size), 0);
    EXPECT_EQ(::listen(listening_, 1), 0);
    EXPECT_EQ(::getsockname(listening_, reinterpret_cast<sockaddr*>(&at), &size), 0);
    address = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
    thread_ = std::thread([this] { run(); });
  }
  ~Forwarder() {
    over_ = true;
    thread_.join();
    ::close(listening_);
  }
  std::string address;
  std::atomic<bool> slow{false};

 private:
  void run() {
    const int in = ::accept(listening_, nullptr, nullptr);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(static_cast<uint16_t>(std::stoul(to_.substr(to_.rfind(':') + 1))));
    const int out = ::socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(::connect(out, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
    pollfd ends[2] = {{in, POLLIN, 0}, {out, POLLIN, 0}};
    while (!over_) {
      if (::poll(ends, 2, 10) <= 0) continue;
      for (int i = 0; i < 2; ++i) {
        if (ends[i].revents == 0) continue;
        char bytes[4096];
        const ssize_t got = ::recv(ends[i].fd, bytes, slow ? 1 : sizeof bytes, 0);
        if (got <= 0) over_ = true;
        if (got > 0 && ::send(ends[1 - i].fd, bytes, static_cast<size_t>(got), MSG_NOSIGNAL) != got)
          over_ = true;
      }
      if (slow) std::this_thread::sleep_for(2ms);
    }
    ::close(in);
    ::close(out);
  }
  const std::string to_;
  const int listening_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

// Every message arrives whole and right, each much too late: as good as none.
TEST_F(TcpTest, WhatCrawlsIsAsGoodAsSilent) {
  Forwarder forwarder(listener_->address());
  auto a = tcp_connect(identity_.node("anna"), forwarder.address, "", kLong).or_throw();
  const auto b = next_accepted();
  std::vector<std::byte> row(512);
  const auto pass = [&](uint64_t step) {
    ASSERT_TRUE(send_message(*a, {.kind = MessageKind::kActivations, .step = step}, row, kLong).ok());
    const auto head = b->receive_head(kLong);
    ASSERT_TRUE(head.ok()) << head.status().text();
    EXPECT_EQ(head->step, step);
    ASSERT_TRUE(b->receive_body(row, kLong).ok());
  };
  for (uint64_t i = 0; i < 20; ++i) pass(i);
  forwarder.slow = true;
  for (uint64_t i = 20; i < 23; ++i) pass(i);
  EXPECT_GE(b->silent(), 2s) << "three messages of 500 bytes, 2 ms for each byte";
  forwarder.slow = false;
  const Deadline until = in(kLong);
  for (uint64_t i = 23; (i < 26 || b->silent() >= 1s) && !until.expired(); ++i) pass(i);
  EXPECT_FALSE(until.expired()) << "it is as it was";
}

TEST_F(TcpTest, BeatsAreForLinksThatAreQuiet) {
  auto [a, b] = good_pair();
  ASSERT_TRUE(send_message(*a, {.kind = MessageKind::kHealth, .step = 1}, {}, kLong).ok());
  EXPECT_TRUE(b->receive_head(kLong).ok());
  a->beat(1h);
  EXPECT_EQ(b->receive_head(20ms).status().code(), Errc::kTimeout);
  EXPECT_GE(b->silent(), 20ms) << "a message was enough";
}

// However fast they come.
TEST_F(TcpTest, BeatsWithoutEndDoNotHoldTheReader) {
  auto [a, b] = good_pair();
  std::atomic<bool> over{false};
  auto beats = std::async(std::launch::async, [&, link = a.get()] {
    while (!over) link->beat(Duration(0));
  });
  for (int i = 0; i < 10; ++i) EXPECT_EQ(b->receive_head(5ms).status().code(), Errc::kTimeout);
  over = true;
  b->close();
  beats.get();
}

TEST_F(TcpTest, ARemovedNodeIsCutOffAndNotLetInAgain) {
  const auto anna = identity_.node("anna");
  ASSERT_TRUE(roster_->admit(anna->self()).ok());
  auto link = connect(anna).or_throw();
  const auto theirs = next_accepted();
  ASSERT_TRUE(roster_->remove("anna").ok());
  EXPECT_EQ(bert_->open_links()->close_peer(anna->self().key), 1u);
  EXPECT_EQ(link->receive_head(kLong).status().code(), Errc::kPeerLost);
  EXPECT_EQ(theirs->receive_head(kLong).status().code(), Errc::kCancelled);
  EXPECT_THAT(refusal_of(anna), HasSubstr("certificate revoked"));
  EXPECT_EQ(waiting(), 0u);
  expect_others_are_served();
}

TEST_F(TcpTest, ARemovedServerIsNotBelieved) {
  const auto roster = std::make_shared<Roster>(StateFolder::make(identity_.dir / "annas"));
  ASSERT_TRUE(roster->add_removed(bert_->self()).ok());
  const auto link = connect(identity_.node("anna", roster));
  ASSERT_FALSE(link.ok());
  EXPECT_THAT(link.status().text(), HasSubstr("certificate revoked"));
}

TEST_F(TcpTest, RenewedCertificatesServeNewLinks) {
  auto [a, b] = good_pair();
  const Credentials old = bert_->credentials();
  Certificate renewed =
      identity_.authority.issue(CertificateRequest::make(old.key, "bert"), wall_now(), 24h * 200);
  bert_->replace({old.authority, renewed, old.key});
  auto [c, d] = good_pair();
  EXPECT_EQ(c->peer(), a->peer()) << "same key, same node";
  ASSERT_TRUE(send_message(*a, {.kind = MessageKind::kHealth}, {}, kLong).ok());
  EXPECT_TRUE(b->receive_head(kLong).ok()) << "the old link stays";
}

TEST_F(TcpTest, KeysChangeWithoutNotice) {
  const auto tls = identity_.node("anna");
  auto link = tcp_connect(tls, listener_->address(), "", kLong, {.records_per_key = 3}).or_throw();
  const auto theirs = next_accepted();
  // More than the sockets hold, so that keys also change while the sender waits for room.
  constexpr int kMessages = 100;
  const std::vector<std::byte> body(200'000, std::byte{7});
  auto sent = std::async(std::launch::async, [&] {
    Status status;
    for (int i = 0; i < kMessages && status.ok(); ++i)
      status = send_message(*link, {.kind = MessageKind::kActivations}, body, kLong);
    return status;
  });
  std::this_thread::sleep_for(20ms);
  for (int i = 0; i < kMessages; ++i) {
    const auto message = receive_message(*theirs, body.size(), kLong);
    ASSERT_TRUE(message.ok()) << message.status().text();
    ASSERT_TRUE(message->body == body);
  }
  EXPECT_TRUE(sent.get().ok());
}

TEST_F(TcpTest, HelloTellsANodeThatItIsRefused) {
  const auto old =
      std::make_shared<NodeTls>(identity_.credentials("old", wall_now() - std::chrono::hours(48), 24h));
  auto link = connect(old);
  if (!link.ok()) return;
  const auto hello = exchange_hello(**link, {.version = "1"}, kLong);
  EXPECT_EQ(hello.status().code(), Errc::kPeerLost);
}

TEST(Address, SplitsHostAndPort) {
  EXPECT_EQ(split_address("10.0.0.7:4711")->host, "10.0.0.7");
  EXPECT_EQ(split_address("10.0.0.7:4711")->port, "4711");
  EXPECT_EQ(split_address("[fe80::1]:80")->host, "fe80::1");
  EXPECT_EQ(split_address("node-3.local:80")->host, "node-3.local");
  for (const char* bad :
       {"", "host", "host:", ":x", "host:65536", "host:-1", "fe80::1:80", "[fe80::1:80", "host:123456"})
    EXPECT_EQ(split_address(bad).status().code(), Errc::kInvalidArgument) << bad;
}

TEST(Address, SixIsAsGoodAsFour) {
  const auto listening = listen_socket("[::1]:0");
  if (!listening.ok()) GTEST_SKIP() << listening.status().text();
  EXPECT_THAT(listening->address, HasSubstr("[::1]:"));
  EXPECT_TRUE(connect_socket(listening->address, in(kLong)).ok());
}

TEST(Address, WhatCannotBeFoundOrUsedIsSaid) {
  EXPECT_EQ(connect_socket("nobody.invalid:1", in(kLong)).ok(), false);
  EXPECT_THAT(listen_socket("203.0.113.1:0").status().text(), HasSubstr("cannot use this address"));
}

}  // namespace
}  // namespace butterfly::cluster
