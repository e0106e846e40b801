// Whom a node obeys.
#include "runtime/nodes/cluster_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/testing/temp_dir.h"
#include "cluster/identity/authority.h"
#include "cluster/testing/member_samples.h"
#include "cluster/transport/tcp.h"

namespace butterfly::runtime {
namespace {

using ::testing::HasSubstr;

constexpr Duration kLong = std::chrono::seconds(60);
constexpr Duration kLook = std::chrono::milliseconds(50);

// Two members of one cluster; the first one founded it.
class ClusterNodeTest : public ::testing::Test {
 protected:
  // What `join` leaves behind.
  cluster::Credentials member(const std::string& name) {
    const cluster::StateFolder folder = cluster::StateFolder::make(dir_ / name);
    cluster::PrivateKey key = cluster::load_or_make_key(folder);
    const cluster::Authority authority = cluster::Authority::load(hub_);
    const cluster::Certificate own =
        authority.issue(cluster::CertificateRequest::make(key, name), cluster::wall_now());
    cluster::save_certificates(folder, authority.certificate(), own);
    return {authority.certificate(), own, std::move(key)};
  }

  std::unique_ptr<ClusterNode> node(const std::string& state, const std::string& coordinator) {
    ClusterNodeOptions options;
    options.state = dir_ / state;
    options.coordinator = coordinator;
    options.version = "test";
    options.capabilities = cluster::testing::capabilities(1 << 20);
    options.places.cache = dir_ / "cache";
    options.compute = &compute_;
    return std::make_unique<ClusterNode>(std::move(options));
  }

  butterfly::testing::TempDir dir_;
  cluster::StateFolder hub_ = cluster::StateFolder::make(dir_ / "hub");
  cluster::Credentials founder_ = cluster::found_cluster(hub_, "home", "hub", cluster::wall_now());
  Compute compute_{1};
};

// Accepts links as a coordinator does, and says who came for control.
class Posing {
 public:
  explicit Posing(cluster::Credentials credentials)
      : listener_(cluster::tcp_listen(std::make_shared<cluster::NodeTls>(std::move(credentials)),
                                      "127.0.0.1:0", {}, nullptr)
                      .or_throw()),
        thread_([this] { run(); }) {}
  ~Posing() {
    listener_->close();
    thread_.join();
  }
  const std::string& address() const { return listener_->address(); }
  size_t joins() const { return joins_; }

 private:
  void run() {
    for (;;) {
      auto link = listener_->accept(kLook);
      if (link.status().code() == Errc::kCancelled) return;
      if (!link || !cluster::exchange_hello(**link, {}, kLong)) continue;
      const auto message = cluster::receive_message(**link, cluster::kControlBytesMax, kLong);
      if (!message) continue;
      const auto decoded = cluster::decode_to_coordinator(message->body);
      joins_ += decoded && std::holds_alternative<cluster::Join>(*decoded);
    }
  }
  const std::unique_ptr<cluster::Listener> listener_;
  std::atomic<size_t> joins_{0};
  std::thread thread_;
};

TEST_F(ClusterNodeTest, OffersItselfToTheCoordinator) {
  member("anna");
  const Posing hub(founder_);
  const auto anna = node("anna", hub.address());
  anna->start();
  for (const Deadline deadline(SystemClock::instance(), kLong); hub.joins() == 0 && !deadline.expired();)
    std::this_thread::sleep_for(kLook);
  EXPECT_GE(hub.joins(), 1u);
  anna->stop("the test is over");
}

// As when what comes between making and starting it throws.
TEST_F(ClusterNodeTest, OneThatWasNeverStartedEnds) {
  member("anna");
  const auto anna = node("anna", "127.0.0.1:1");
  anna->stop("it was not wanted");
}

TEST_F(ClusterNodeTest, ObeysNoOtherMemberThatHasItsAddress) {
  member("anna");
  const Posing eve(member("eve"));
  const auto anna = node("anna", eve.address());
  anna->start();
  for (const Deadline deadline(SystemClock::instance(), kLong);
       anna->view().problem.empty() && !deadline.expired();)
    std::this_thread::sleep_for(kLook);
  EXPECT_THAT(anna->view().problem, HasSubstr("is node eve with key"));
  anna->stop("the test is over");
  EXPECT_EQ(eve.joins(), 0u);
}

}  // namespace
}  // namespace butterfly::runtime
