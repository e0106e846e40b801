// A cluster's authority and nodes for tests: in memory, with the clock of the test's choice. Only for tests.
#pragma once
#include <chrono>
#include <memory>
#include <string>

#include "base/testing/temp_dir.h"
#include "cluster/identity/authority.h"
#include "cluster/identity/roster.h"
#include "cluster/transport/node_tls.h"

namespace butterfly::cluster::testing {

// An authority in a folder of its own, and nodes that it signed. Of one thread.
class TestIdentity {
 public:
  explicit TestIdentity(const std::string& cluster_name = "test", WallTime made = wall_now())
      : folder(StateFolder::make(dir / "state")), authority(Authority::make(folder, cluster_name, made)) {}

  // A node with a certificate from `now` on.
  Credentials credentials(const std::string& name, WallTime now = wall_now(),
                          std::chrono::seconds life = kNodeLife) const {
    PrivateKey key = PrivateKey::make();
    Certificate own = authority.issue(CertificateRequest::make(key, name), now, life);
    return {authority.certificate(), std::move(own), std::move(key)};
  }
  std::shared_ptr<NodeTls> node(const std::string& name,
                                std::shared_ptr<const Roster> roster = nullptr) const {
    return std::make_shared<NodeTls>(credentials(name), std::move(roster));
  }

  butterfly::testing::TempDir dir;
  StateFolder folder;
  Authority authority;
};

}  // namespace butterfly::cluster::testing
