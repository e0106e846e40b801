// Tokens and joining: who has one gets in once, over the same port as the links.
#include "cluster/identity/enrolment.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/secret.h"
#include "base/sha256.h"
#include "cluster/enrol/join.h"
#include "cluster/enrol/keep_renewed.h"
#include "cluster/testing/test_identity.h"
#include "cluster/transport/message.h"
#include "cluster/transport/tcp.h"

namespace butterfly::cluster {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::TestIdentity;

constexpr Duration kLong = 30s;
const WallTime kNow = WallTime(std::chrono::seconds(1'800'000'000));
const std::string kHash(64, 'a');
std::string key(size_t i) { return sha256_hex(std::to_string(i)); }

TEST(JoinTokenTest, ReadsItsOwnText) {
  const JoinToken token{kHash, std::string(32, '7')};
  EXPECT_EQ(token.text(), "bf1-" + kHash + "-" + std::string(32, '7'));
  const auto read = JoinToken::parse(token.text());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->authority_hash, kHash);
  EXPECT_EQ(read->secret, token.secret);
  for (const std::string& bad :
       {std::string(), std::string("bf2-") + token.text().substr(4), token.text() + "0",
        "bf1-" + std::string(97, 'a'), "bf1-" + kHash + "-" + std::string(32, 'G')})
    EXPECT_EQ(JoinToken::parse(bad).status().code(), Errc::kInvalidArgument) << bad;
  EXPECT_THAT(JoinToken::parse("secret-stuff").status().text(), Not(HasSubstr("secret-stuff")));
}

class TokenBookTest : public ::testing::Test {
 protected:
  JoinToken make(int uses = 1, std::chrono::seconds life = 1h) {
    return book_.make(kHash, uses, life, kNow).or_throw();
  }
  butterfly::testing::TempDir dir_;
  StateFolder folder_ = StateFolder::make(dir_ / "s");
  TokenBook book_{folder_};
};

TEST_F(TokenBookTest, OneUseIsOneNode) {
  const JoinToken token = make();
  EXPECT_TRUE(book_.redeem(token.secret, key(1), kNow).ok());
  EXPECT_TRUE(book_.redeem(token.secret, key(1), kNow).ok()) << "the same node may ask again";
  EXPECT_EQ(book_.redeem(token.secret, key(2), kNow).code(), Errc::kNotFound);
  EXPECT_THAT(book_.list(kNow), IsEmpty());
}

TEST_F(TokenBookTest, CountsUsesAndEndsInTime) {
  const JoinToken token = make(3, 10min);
  EXPECT_TRUE(book_.redeem(token.secret, key(1), kNow).ok());
  ASSERT_EQ(book_.list(kNow).size(), 1u);
  const TokenInfo info = book_.list(kNow)[0];
  EXPECT_EQ(info.uses, 3);
  EXPECT_EQ(info.uses_left, 2);
  EXPECT_EQ(info.expires, kNow + 10min);
  EXPECT_THAT(book_.list(kNow + 10min), IsEmpty());
  EXPECT_TRUE(book_.redeem(token.secret, key(2), kNow + 10min - 1s).ok());
  EXPECT_FALSE(book_.redeem(token.secret, key(3), kNow + 10min).ok());
}

TEST_F(TokenBookTest, SecretsAreNotOnDisk) {
  const JoinToken token = make();
  EXPECT_THAT(folder_.read("tokens"), Not(HasSubstr(token.secret)));
  EXPECT_THAT(folder_.read("tokens"), HasSubstr(sha256_hex(token.secret)));
}

TEST_F(TokenBookTest, RevokedByIdOrByItself) {
  const JoinToken first = make(), second = make();
  EXPECT_TRUE(book_.revoke(book_.list(kNow)[0].id).ok());
  EXPECT_FALSE(book_.redeem(first.secret, key(1), kNow).ok());
  EXPECT_TRUE(book_.revoke(second.text()).ok());
  EXPECT_FALSE(book_.redeem(second.secret, key(1), kNow).ok());
  EXPECT_EQ(book_.revoke("12345678").code(), Errc::kNotFound);
}

TEST_F(TokenBookTest, BoundsAreSaid) {
  EXPECT_EQ(book_.make(kHash, 0, 1h, kNow).status().code(), Errc::kInvalidArgument);
  EXPECT_EQ(book_.make(kHash, kTokenUsesMax + 1, 1h, kNow).status().code(), Errc::kInvalidArgument);
  EXPECT_EQ(book_.make(kHash, 1, 0s, kNow).status().code(), Errc::kInvalidArgument);
  EXPECT_EQ(book_.make(kHash, 1, 24h * 366, kNow).status().code(), Errc::kInvalidArgument);
  const int64_t now = kNow.time_since_epoch().count();
  std::string full =
      "butterfly tokens 1\n";  // as the book would write it, without as many waits for the disk
  for (size_t i = 0; i < TokenBook::kTokensMax; ++i)
    full += fmt::format("{} {} {} 1\n", key(i), now, now + 3600);
  folder_.write("tokens", full);
  EXPECT_EQ(book_.list(kNow).size(), TokenBook::kTokensMax);
  EXPECT_EQ(book_.make(kHash, 1, 1h, kNow).status().code(), Errc::kQueueFull);
  EXPECT_TRUE(book_.make(kHash, 1, 1h, kNow + 2h).ok()) << "old ones make room";
}

// Eight processes want to use a token for three nodes at once.
TEST_F(TokenBookTest, UsesAreCountedAcrossProcesses) {
  const JoinToken token = make(3);
  std::vector<pid_t> children;
  for (size_t i = 0; i < 8; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(TokenBook(folder_).redeem(token.secret, key(i), kNow).ok() ? 0 : 1);
    children.push_back(child);
  }
  int let_in = 0;
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    let_in += WEXITSTATUS(status) == 0 ? 1 : 0;
  }
  EXPECT_EQ(let_in, 3);
}

TEST(AttemptLimiterTest, SlowsDownWhoFails) {
  ManualClock clock;
  AttemptLimiter limiter(clock, 3, 10s);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(limiter.may_try("a"));
    limiter.failed("a");
  }
  EXPECT_FALSE(limiter.may_try("a"));
  EXPECT_TRUE(limiter.may_try("b"));
  clock.advance(9s);
  EXPECT_FALSE(limiter.may_try("a"));
  clock.advance(1s);
  EXPECT_TRUE(limiter.may_try("a"));
  limiter.failed("a");
  EXPECT_FALSE(limiter.may_try("a"));
  limiter.succeeded("a");
  EXPECT_TRUE(limiter.may_try("a"));
}

TEST(AttemptLimiterTest, RemembersABoundedNumber) {
  ManualClock clock;
  AttemptLimiter limiter(clock, 1, 1h);
  limiter.failed("first");
  for (size_t i = 0; i < AttemptLimiter::kAddressesMax; ++i) {
    clock.advance(1ms);
    limiter.failed(std::to_string(i));
  }
  EXPECT_TRUE(limiter.may_try("first")) << "forgotten";
  EXPECT_FALSE(limiter.may_try("1000"));
}

class DeskTest : public ::testing::Test {
 protected:
  JoinToken token(int uses = 1) {
    return TokenBook(identity_.folder)
        .make(identity_.authority.certificate().sha256(), uses, 1h, kNow)
        .or_throw();
  }
  EnrolmentReply ask(const std::string& secret, const PrivateKey& key, const std::string& name) {
    const EnrolmentRequest request{secret, CertificateRequest::make(key, name).to_der()};
    return EnrolmentReply::decode(desk_.answer(request.encode(), "10.0.0.9")).or_throw();
  }

  ManualClock clock_;
  TestIdentity identity_{"home", kNow};
  std::shared_ptr<Roster> roster_ = std::make_shared<Roster>(identity_.folder);
  EnrolmentDesk desk_{identity_.folder, roster_, clock_, [] { return kNow; }};
};

TEST_F(DeskTest, ATokenBuysACertificate) {
  const PrivateKey key = PrivateKey::make();
  const JoinToken paid = token();
  const EnrolmentReply reply = ask(paid.secret, key, "anna");
  ASSERT_THAT(reply.refusal, IsEmpty());
  const Certificate own = *Certificate::from_der(reply.certificate);
  EXPECT_EQ(own.node().key, key.fingerprint());
  EXPECT_EQ(own.node().name, "anna");
  EXPECT_EQ(own.not_after(), kNow + kNodeLife);
  EXPECT_EQ(Certificate::from_der(reply.authority)->sha256(), paid.authority_hash);
  EXPECT_EQ(roster_->rows().size(), 1u);
  EXPECT_THAT(ask(paid.secret, PrivateKey::make(), "bert").refusal, HasSubstr("used up"));
  EXPECT_THAT(ask(paid.secret, key, "anna").refusal, IsEmpty()) << "the answer may have been lost";
}

TEST_F(DeskTest, WrongSecretsAndNamesAreRefused) {
  EXPECT_THAT(ask(std::string(32, '0'), PrivateKey::make(), "anna").refusal, HasSubstr("unknown"));
  const JoinToken paid = token(2);
  ASSERT_THAT(ask(paid.secret, PrivateKey::make(), "anna").refusal, IsEmpty());
  const PrivateKey key = PrivateKey::make();
  EXPECT_THAT(ask(paid.secret, key, "anna").refusal, HasSubstr("another node is called anna"));
  EXPECT_THAT(ask(paid.secret, key, "bert").refusal, IsEmpty()) << "and may come again under another name";
}

TEST_F(DeskTest, RemovedNodesDoNotComeBack) {
  const PrivateKey key = PrivateKey::make();
  ASSERT_THAT(ask(token().secret, key, "anna").refusal, IsEmpty());
  ASSERT_TRUE(roster_->remove("anna").ok());
  EXPECT_THAT(ask(token().secret, key, "anna").refusal, HasSubstr("was removed"));
}

TEST_F(DeskTest, MembersRenewWithTheirKeyAloneAndStrangersDoNot) {
  const PrivateKey key = PrivateKey::make();
  EXPECT_THAT(ask("", key, "anna").refusal, HasSubstr("no such member"));
  ASSERT_THAT(ask(token().secret, key, "anna").refusal, IsEmpty());
  EXPECT_THAT(ask("", key, "anna").refusal, IsEmpty());
  EXPECT_THAT(ask("", key, "hub").refusal, HasSubstr("no such member")) << "not under another name";
  EXPECT_THAT(ask("", PrivateKey::make(), "anna").refusal, HasSubstr("no such member"));
  ASSERT_TRUE(roster_->remove("anna").ok());
  EXPECT_THAT(ask("", key, "anna").refusal, HasSubstr("no such member"));
}

TEST_F(DeskTest, GuessingIsSlowedDown) {
  const JoinToken paid = token();
  for (int i = 0; i < 10; ++i)
    EXPECT_THAT(ask(random_hex(32), PrivateKey::make(), "eve").refusal, HasSubstr("unknown"));
  EXPECT_THAT(ask(paid.secret, PrivateKey::make(), "eve").refusal, HasSubstr("too many failures"));
  clock_.advance(6s);
  EXPECT_THAT(ask(paid.secret, PrivateKey::make(), "eve").refusal, IsEmpty());
}

TEST_F(DeskTest, AnyBytesGetAnAnswer) {
  for (size_t size : {0u, 1u, 40u, 4000u}) {
    clock_.advance(1min);
    const std::vector<std::byte> junk(size, std::byte{0x41});
    EXPECT_THAT(EnrolmentReply::decode(desk_.answer(junk, "x"))->refusal, Not(IsEmpty()));
  }
}

TEST_F(DeskTest, ADiskThatRefusesIsNotAnEnd) {
  const JoinToken paid = token();
  identity_.folder.write("tokens", "nonsense");
  EXPECT_THAT(ask(paid.secret, PrivateKey::make(), "anna").refusal, HasSubstr("cannot take nodes now"));
}

// Over the network: a server with links and joining on one port.
class JoinTest : public ::testing::Test {
 protected:
  JoinTest() {
    server_folder_ = std::make_unique<StateFolder>(StateFolder::make(dir_ / "server"));
    credentials_ = std::make_unique<Credentials>(found_cluster(*server_folder_, "home", "hub", wall_now()));
    roster_ = std::make_shared<Roster>(*server_folder_);
    desk_ = std::make_unique<EnrolmentDesk>(*server_folder_, roster_);
    tls_ = std::make_shared<NodeTls>(*credentials_, roster_);
    listener_ = tcp_listen(tls_, "127.0.0.1:0", {}, [this](auto body, const std::string& host) {
                  return desk_->answer(body, host);
                }).or_throw();
    thread_ = std::thread([this] {
      for (;;) {
        auto link = listener_->accept(kLong);
        if (link.status().code() == Errc::kCancelled) return;
        if (link.ok()) (void)send_message(**link, {.kind = MessageKind::kHealth, .step = 77}, {}, kLong);
        const std::lock_guard lock(mutex_);
        if (link.ok()) links_.push_back(*std::move(link));
      }
    });
  }
  ~JoinTest() override {
    listener_->close();
    thread_.join();
  }

  JoinToken token(int uses = 1) {
    return TokenBook(*server_folder_).make(credentials_->authority.sha256(), uses, 1h, wall_now()).or_throw();
  }
  StateFolder folder(const std::string& name) { return StateFolder::make(dir_ / name); }
  std::string refusal(const StateFolder& at, const JoinToken& with, const std::string& name) {
    try {
      join_cluster(at, listener_->address(), with, name, kLong);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }

  butterfly::testing::TempDir dir_;
  std::unique_ptr<StateFolder> server_folder_;
  std::unique_ptr<Credentials> credentials_;
  std::shared_ptr<Roster> roster_;
  std::unique_ptr<EnrolmentDesk> desk_;
  std::shared_ptr<NodeTls> tls_;
  std::unique_ptr<Listener> listener_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Link>> links_;
  std::thread thread_;
};

TEST_F(JoinTest, ANewNodeJoinsAndConnects) {
  const StateFolder mine = folder("anna");
  const Credentials got = join_cluster(mine, listener_->address(), token(), "anna", kLong);
  EXPECT_EQ(got.id().name, "anna");
  EXPECT_EQ(load_credentials(mine).id(), got.id());
  EXPECT_FALSE(mine.has(kAuthorityKeyFile));
  EXPECT_THAT(server_folder_->read("roster"), HasSubstr(got.id().key + " anna"));

  const auto own = std::make_shared<NodeTls>(load_credentials(mine));
  const auto link = tcp_connect(own, listener_->address(), credentials_->id().key, kLong);
  ASSERT_TRUE(link.ok()) << link.status().text();
  EXPECT_EQ((*link)->receive_head(kLong)->step, 77u);
  EXPECT_THAT(refusal(mine, token(), "anna"), HasSubstr("belongs to a cluster already"));
}

TEST_F(JoinTest, AUsedTokenIsRefusedInWords) {
  const JoinToken once = token();
  ASSERT_THAT(refusal(folder("anna"), once, "anna"), IsEmpty());
  EXPECT_THAT(refusal(folder("bert"), once, "bert"), HasSubstr("used up"));
  EXPECT_FALSE(has_credentials(folder("bert")));
}

TEST_F(JoinTest, AServerOfAnotherClusterIsNotBelievedAndHearsNoSecret) {
  JoinToken other = token();
  other.authority_hash = std::string(64, 'b');
  EXPECT_THAT(refusal(folder("anna"), other, "anna"),
              HasSubstr("belongs to another cluster (its authority is " +
                        credentials_->authority.sha256().substr(0, 12) + ", the token is for bbbbbbbbbbbb)"));
  EXPECT_EQ(TokenBook(*server_folder_).list(wall_now()).size(), 1u) << "the token is unused";
}

// A member that has taken over the coordinator's address: its certificate is good, but not for this.
TEST_F(JoinTest, AnotherMemberIsNotTheCoordinatorAndHearsNoSecret) {
  const Credentials eve = join_cluster(folder("eve"), listener_->address(), token(), "eve", kLong);
  EXPECT_EQ(eve.own.coordinator(), credentials_->id().key);
  size_t asked = 0;
  const auto posing =
      tcp_listen(std::make_shared<NodeTls>(eve), "127.0.0.1:0", {}, [&](auto, const std::string&) {
        ++asked;
        return EnrolmentReply{.refusal = "thank you", .certificate = {}, .authority = {}}.encode();
      }).or_throw();
  std::thread serves([&] {
    while (posing->accept(kLong).status().code() != Errc::kCancelled) {
    }
  });
  try {
    join_cluster(folder("anna"), posing->address(), token(), "anna", kLong);
    ADD_FAILURE() << "joined";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("is node eve, which does not coordinate"));
  }
  posing->close();
  serves.join();
  EXPECT_EQ(asked, 0u);
  EXPECT_FALSE(has_credentials(folder("anna")));
}

TEST_F(JoinTest, TwoAtOnceWithOneTokenLetsOneIn) {
  const JoinToken once = token();
  std::string refusals[2];
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back(
        [&, i] { refusals[i] = refusal(folder("n" + std::to_string(i)), once, "n" + std::to_string(i)); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE(refusals[0].empty(), refusals[1].empty()) << refusals[0] << refusals[1];
}

TEST_F(JoinTest, ANodeRenewsAtTheSamePort) {
  const StateFolder mine = folder("anna");
  join_cluster(mine, listener_->address(), token(), "anna", kLong);
  NodeTls own(load_credentials(mine));
  const WallTime end = own.credentials().own.not_after();
  const auto renew = [&](WallTime now) { return keep_renewed(mine, own, listener_->address(), now, kLong); };
  EXPECT_FALSE(*renew(wall_now())) << "not due";
  // Due by this clock; the server's own clock must have moved for a certificate that ends later.
  std::this_thread::sleep_for(1100ms);
  const auto renewed = renew(end - 24h * 20);
  ASSERT_TRUE(renewed.ok()) << renewed.status().text();
  EXPECT_TRUE(*renewed);
  EXPECT_GT(own.credentials().own.not_after(), end);
  EXPECT_EQ(load_credentials(mine).own.sha256(), own.credentials().own.sha256()) << "on disk as well";

  ASSERT_TRUE(roster_->remove("anna").ok());
  const std::string kept = own.credentials().own.sha256();
  EXPECT_THAT(renew(end).status().text(), HasSubstr("no such member"));
  EXPECT_EQ(own.credentials().own.sha256(), kept);
}

TEST_F(JoinTest, TheAuthoritysOwnNodeRenewsByItself) {
  const WallTime end = credentials_->own.not_after();
  EXPECT_TRUE(*keep_renewed(*server_folder_, *tls_, "", end - 24h, kLong));
  EXPECT_GT(tls_->credentials().own.not_after(), end);
  EXPECT_EQ(load_credentials(*server_folder_).own.not_after(), tls_->credentials().own.not_after());
}

TEST_F(JoinTest, WithoutACertificateThereIsOnlyJoining) {
  // The join context has no certificate; as a link it must not pass.
  const TlsContext context = join_context(credentials_->authority.sha256());
  EXPECT_EQ(tls_->open_links()->count(), 0u);
  ASSERT_THAT(refusal(folder("anna"), token(), "anna"), IsEmpty());
  EXPECT_EQ(tls_->open_links()->count(), 0u) << "joining opens no link";
}

}  // namespace
}  // namespace butterfly::cluster
