// Links inside one process: for clusters in one program, and the plain form that the other transports are
// compared with in tests.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "cluster/transport/link.h"

namespace butterfly::cluster {

// What may wait in one direction. A sender blocks while either bound is reached; a message larger than
// bytes_max goes alone.
struct InprocOptions {
  size_t messages_max = 64;
  size_t bytes_max = 64u << 20;
};

// Two ends of one link; a's peer() is `b_id` and the other way round. Sending copies the pieces once. An end
// that is closed or destroyed is a lost peer to the other one, which first receives what was sent before.
std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> inproc_pair(NodeId a_id, NodeId b_id,
                                                                    InprocOptions options = {});

// Addresses inside one process. Thread-safe. Outlives nothing: listeners and links share what they need.
class InprocNetwork {
 public:
  explicit InprocNetwork(InprocOptions options = {});
  ~InprocNetwork();

  // `address` is any text. kInvalidArgument when somebody listens there.
  Result<std::unique_ptr<Listener>> listen(const NodeId& self, const std::string& address);
  // kPeerLost when nobody listens there, kTimeout when its queue of callers stays full.
  Result<std::unique_ptr<Link>> connect(const NodeId& self, const std::string& address, Duration timeout);

 private:
  class Doors;
  std::shared_ptr<Doors> doors_;
};

}  // namespace butterfly::cluster
