// Keys, certificates and the authority; the roster of who has one.
#include "cluster/identity/certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/hex.h"
#include "base/secret.h"
#include "base/sha256.h"
#include "cluster/identity/openssl_ptr.h"
#include "cluster/identity/renewal.h"
#include "cluster/identity/roster.h"
#include "cluster/testing/test_identity.h"

namespace butterfly::cluster {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TestIdentity;

const WallTime kNow = WallTime(std::chrono::seconds(1'800'000'000));

std::string text_of(const Certificate& certificate) {
  const BioPtr out(BIO_new(BIO_s_mem()));
  X509_print(out.get(), certificate.get());
  return contents_of(out.get());
}

TEST(Key, SurvivesItsText) {
  const PrivateKey key = PrivateKey::make();
  EXPECT_EQ(PrivateKey::from_pem(key.to_pem(), "x").fingerprint(), key.fingerprint());
  EXPECT_NE(PrivateKey::make().fingerprint(), key.fingerprint());
  EXPECT_TRUE(is_hex(key.fingerprint(), 64));
  EXPECT_THROW(PrivateKey::from_pem("nonsense", "x"), Error);
}

TEST(CertificateTest, HoldsNameKeyAndDates) {
  const TestIdentity identity("home", kNow);
  const Credentials node = identity.credentials("anna", kNow, 24h);
  EXPECT_EQ(node.own.node().name, "anna");
  EXPECT_EQ(node.own.node().key, node.key.fingerprint());
  EXPECT_EQ(node.own.not_after(), kNow + 24h);
  EXPECT_EQ(node.own.not_before(), kNow - 1h);
  EXPECT_TRUE(node.own.signed_by(identity.authority.certificate()));
  EXPECT_FALSE(node.own.signed_by(TestIdentity("other").authority.certificate()));
  const std::string text = text_of(node.own);
  EXPECT_THAT(text, HasSubstr("DNS:anna, URI:butterfly:node:" + node.key.fingerprint()));
  EXPECT_THAT(text, HasSubstr("CA:FALSE"));
  EXPECT_THAT(text, HasSubstr("TLS Web Server Authentication, TLS Web Client Authentication"));
  EXPECT_THAT(text_of(identity.authority.certificate()), HasSubstr("CA:TRUE, pathlen:0"));
}

TEST(CertificateTest, SurvivesBothForms) {
  const Credentials node = TestIdentity().credentials("anna");
  EXPECT_EQ(Certificate::from_pem(node.own.to_pem(), "x").sha256(), node.own.sha256());
  auto der = node.own.to_der();
  EXPECT_EQ(Certificate::from_der(der)->sha256(), node.own.sha256());
  der.push_back(std::byte{0});
  EXPECT_EQ(Certificate::from_der(der).status().code(), Errc::kCorrupt);
  EXPECT_EQ(Certificate::from_der(std::span(der).first(100)).status().code(), Errc::kCorrupt);
  EXPECT_EQ(Certificate::from_der({}).status().code(), Errc::kCorrupt);
}

TEST(CertificateTest, AnAuthorityWithoutANodeNamesNoCoordinator) {
  const Credentials node = TestIdentity().credentials("anna");
  EXPECT_EQ(node.own.coordinator(), "");
  EXPECT_EQ(node.authority.coordinator(), "") << "it has no such names at all";
}

TEST(CertificateTest, NoneOutlivesItsAuthority) {
  butterfly::testing::TempDir dir;
  const Authority authority = Authority::make(StateFolder::make(dir / "s"), "short", kNow, 10h);
  const Certificate own = authority.issue(CertificateRequest::make(PrivateKey::make(), "anna"), kNow + 4h);
  EXPECT_EQ(own.not_after(), kNow + 10h);
}

TEST(CertificateRequestTest, DamagedOrForeignOnesAreRefused) {
  const PrivateKey key = PrivateKey::make();
  const auto good = CertificateRequest::make(key, "anna").to_der();
  const auto read = CertificateRequest::from_der(good);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->node().name, "anna");
  EXPECT_EQ(read->node().key, key.fingerprint());
  for (size_t i = 0; i < good.size(); ++i) {
    auto bad = good;
    bad[i] ^= std::byte{0x10};
    EXPECT_EQ(CertificateRequest::from_der(bad).status().code(), Errc::kCorrupt) << "byte " << i;
  }
  for (const std::string name : {"", "a b", "-a", "a/b", "a\nb", "a,DNS:b"})
    EXPECT_EQ(CertificateRequest::from_der(CertificateRequest::make(key, name.empty() ? " " : name).to_der())
                  .status()
                  .code(),
              Errc::kCorrupt)
        << name;
}

TEST(NodeName, Rules) {
  for (const char* good : {"a", "node-3", "Box_1.local", "7"})
    EXPECT_THAT(why_not_node_name(good), IsEmpty()) << good;
  for (const std::string& bad :
       {std::string(), std::string("a b"), std::string(".a"), std::string(64, 'a'), std::string("\xc3\xa4")})
    EXPECT_THAT(why_not_node_name(bad), ::testing::Not(IsEmpty())) << bad;
}

TEST(FoundCluster, MakesAllThatInitNeeds) {
  butterfly::testing::TempDir dir;
  const StateFolder folder = StateFolder::make(dir / "s");
  EXPECT_FALSE(has_credentials(folder));
  const Credentials made = found_cluster(folder, "home", "anna", wall_now());
  const Credentials loaded = load_credentials(folder);
  EXPECT_EQ(loaded.id(), made.id());
  EXPECT_TRUE(Authority::is_here(folder));
  EXPECT_EQ(Authority::load(folder).certificate().sha256(), made.authority.sha256());
  ASSERT_EQ(Roster(folder).rows().size(), 1u);
  EXPECT_EQ(Roster(folder).rows()[0].node, made.id());
  // Everyone is told whom to obey: the node where the cluster was made.
  EXPECT_EQ(made.own.coordinator(), made.id().key);
  const PrivateKey other = PrivateKey::make();
  const Certificate issued =
      Authority::load(folder).issue(CertificateRequest::make(other, "bert"), wall_now());
  EXPECT_EQ(issued.coordinator(), made.id().key);
  EXPECT_EQ(issued.node().key, other.fingerprint());
  EXPECT_THROW(found_cluster(folder, "home", "anna", wall_now()), Error);
}

TEST(FoundCluster, CanBeTriedAgainAfterACrash) {
  butterfly::testing::TempDir dir;
  const StateFolder folder = StateFolder::make(dir / "s");
  const std::string hash = Authority::make(folder, "home", wall_now()).certificate().sha256();
  const std::string key = load_or_make_key(folder).fingerprint();
  const Credentials made = found_cluster(folder, "home", "anna", wall_now());
  EXPECT_EQ(made.authority.sha256(), hash);
  EXPECT_EQ(made.id().key, key);
  EXPECT_EQ(made.own.coordinator(), key);
}

TEST(CredentialsTest, FilesThatDoNotFitAreNoticed) {
  butterfly::testing::TempDir dir;
  const StateFolder folder = StateFolder::make(dir / "s");
  found_cluster(folder, "home", "anna", wall_now());
  folder.write(kNodeKeyFile, PrivateKey::make().to_pem());
  EXPECT_THROW(load_credentials(folder), Error);
}

class RosterTest : public ::testing::Test {
 protected:
  static NodeId node(char digit, std::string name) { return {std::string(64, digit), std::move(name)}; }
  butterfly::testing::TempDir dir_;
  StateFolder folder_ = StateFolder::make(dir_ / "s");
  Roster roster_{folder_};
};

TEST_F(RosterTest, RemovedKeysStayRemoved) {
  ASSERT_TRUE(roster_.admit(node('1', "anna")).ok());
  ASSERT_TRUE(roster_.admit(node('2', "bert")).ok());
  EXPECT_EQ(roster_.remove("anna")->key, std::string(64, '1'));
  EXPECT_TRUE(roster_.is_removed(std::string(64, '1')));
  EXPECT_FALSE(roster_.is_removed(std::string(64, '2')));
  EXPECT_EQ(roster_.admit(node('1', "anna")).code(), Errc::kInvalidArgument);
  EXPECT_TRUE(roster_.admit(node('3', "anna")).ok()) << "the name is free, for another key";
  EXPECT_TRUE(Roster(folder_).is_removed(std::string(64, '1'))) << "on disk";
  EXPECT_EQ(roster_.remove("nobody").status().code(), Errc::kNotFound);
  EXPECT_EQ(roster_.remove(std::string(64, '2'))->name, "bert");
}

TEST_F(RosterTest, NamesAreUnique) {
  ASSERT_TRUE(roster_.admit(node('1', "anna")).ok());
  EXPECT_TRUE(roster_.admit(node('1', "anna")).ok());
  EXPECT_THAT(roster_.admit(node('2', "anna")).text(), HasSubstr("another node is called anna"));
  EXPECT_TRUE(roster_.admit(node('1', "anna2")).ok()) << "renamed";
  EXPECT_EQ(roster_.rows().size(), 1u);
}

TEST_F(RosterTest, ChangesOfOtherProcessesAreSeenAfterRefresh) {
  Roster other(folder_);
  ASSERT_TRUE(other.admit(node('1', "anna")).ok());
  ASSERT_TRUE(other.remove("anna").ok());
  EXPECT_FALSE(roster_.is_removed(std::string(64, '1')));
  EXPECT_THAT(roster_.refresh(), ElementsAre(node('1', "anna")));
  EXPECT_TRUE(roster_.is_removed(std::string(64, '1')));
  EXPECT_THAT(roster_.refresh(), IsEmpty());
  ASSERT_TRUE(roster_.admit(node('2', "bert")).ok());
  EXPECT_EQ(other.refresh().size(), 0u);
  EXPECT_EQ(other.rows().size(), 2u);
}

TEST_F(RosterTest, DamagedFilesAreNamed) {
  folder_.write("roster", "butterfly roster 1\nmember x y\n");
  try {
    Roster again(folder_);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("roster:2: expected"));
  }
}

TEST_F(RosterTest, HeardOfRemovals) {
  EXPECT_TRUE(roster_.add_removed(node('5', "eve")).ok());
  EXPECT_TRUE(roster_.add_removed(node('5', "eve")).ok());
  EXPECT_TRUE(roster_.is_removed(std::string(64, '5')));
  EXPECT_EQ(roster_.add_removed({"xyz", "eve"}).code(), Errc::kInvalidArgument);
}

// A clock that jumps from day to day: a node with a certificate of 90 days stays a member for years.
TEST(Renewal, KeepsANodeInForYears) {
  TestIdentity identity("home", kNow);
  Roster roster(identity.folder);
  Credentials node = identity.credentials("anna", kNow);
  ASSERT_TRUE(roster.admit(node.id()).ok());
  const NodeId id = node.id();
  int renewals = 0;
  for (WallTime now = kNow; now < kNow + 24h * 1000; now += 24h) {
    ASSERT_GT(node.own.not_after(), now + 24h * 20) << "never near its end";
    if (!renewal_due(node.own, now)) continue;
    const auto reply = answer_renewal(identity.authority, roster, node.id(), renewal_request(node), now);
    ASSERT_TRUE(reply.ok()) << reply.status().text();
    auto renewed = accept_renewal(node, *reply);
    ASSERT_TRUE(renewed.ok()) << renewed.status().text();
    node = *renewed;
    ++renewals;
  }
  EXPECT_EQ(node.id(), id);
  EXPECT_EQ(renewals, 16);  // every 60 days
}

TEST(Renewal, OnlyForOneselfAndOnlyForMembers) {
  TestIdentity identity("home", kNow);
  Roster roster(identity.folder);
  const Credentials anna = identity.credentials("anna", kNow), eve = identity.credentials("eve", kNow);
  EXPECT_EQ(answer_renewal(identity.authority, roster, eve.id(), renewal_request(anna), kNow).status().code(),
            Errc::kInvalidArgument);
  const auto other_name = CertificateRequest::make(eve.key, "anna").to_der();
  EXPECT_EQ(answer_renewal(identity.authority, roster, eve.id(), other_name, kNow).status().code(),
            Errc::kInvalidArgument);
  ASSERT_TRUE(roster.add_removed(eve.id()).ok());
  EXPECT_EQ(answer_renewal(identity.authority, roster, eve.id(), renewal_request(eve), kNow).status().code(),
            Errc::kInvalidArgument);
  EXPECT_EQ(answer_renewal(identity.authority, roster, anna.id(), {}, kNow).status().code(), Errc::kCorrupt);
}

TEST(Renewal, RepliesAreChecked) {
  const TestIdentity identity("home", kNow), other("home", kNow);
  const Credentials anna = identity.credentials("anna", kNow);
  const auto request = CertificateRequest::make(anna.key, "anna");
  EXPECT_FALSE(accept_renewal(anna, other.authority.issue(request, kNow + 24h).to_der()).ok())
      << "other authority";
  EXPECT_FALSE(accept_renewal(anna, identity.credentials("anna", kNow + 24h).own.to_der()).ok())
      << "other key";
  EXPECT_FALSE(accept_renewal(anna, identity.authority.issue(request, kNow).to_der()).ok()) << "no later";
  EXPECT_TRUE(accept_renewal(anna, identity.authority.issue(request, kNow + 24h).to_der()).ok());
}

}  // namespace
}  // namespace butterfly::cluster
