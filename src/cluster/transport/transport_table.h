// The ways to other nodes, one row each.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "cluster/transport/inproc.h"
#include "cluster/transport/link.h"
#include "cluster/transport/tcp.h"

namespace butterfly::cluster {

// Opens links and listeners for one node. Thread-safe.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual Result<std::unique_ptr<Listener>> listen(const std::string& address) = 0;
  // `expected_key`: the node's NodeId::key; empty for any node of the cluster. Another one there is
  // kInvalidArgument.
  virtual Result<std::unique_ptr<Link>> connect(const std::string& address, const std::string& expected_key,
                                                Duration timeout) = 0;
};

// What the rows are made from; each takes what it needs, and objects when that is missing.
struct TransportSetting {
  NodeId self;                             // inproc
  std::shared_ptr<InprocNetwork> network;  // inproc
  std::shared_ptr<const NodeTls> tls;      // tcp
  TcpOptions tcp;                          // tcp
  EnrolHandler enrol;                      // tcp; may be null
};

struct TransportEntry {
  std::string_view name;
  std::string_view says;  // what it is for
  // Why this row cannot be used with the setting; empty when it can.
  std::string (*why_not)(const TransportSetting& setting);
  std::unique_ptr<Transport> (*make)(TransportSetting setting);
};

std::span<const TransportEntry> transports();

// By name. kNotFound lists the names; kInvalidArgument is the row's objection.
Result<std::unique_ptr<Transport>> make_transport(std::string_view name, TransportSetting setting);

}  // namespace butterfly::cluster
