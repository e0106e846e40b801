// The ways to other nodes, one row each.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "cluster/transport/hello.h"
#include "cluster/transport/inproc.h"
#include "cluster/transport/link.h"
#include "cluster/transport/mpi_world.h"
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

  // What others have to know of this node's ways, for the hello of a link. `opens`: this end opened it.
  virtual void introduce(Hello& mine, bool opens) {
    (void)mine;
    (void)opens;
  }
  // After the hellos: the link over the way that both ends have for its purpose; as it was where they have no
  // other. Both ends call it, and send nothing before.
  virtual std::unique_ptr<Link> settle(std::unique_ptr<Link> link, const Hello& mine, const Hello& theirs,
                                       bool opened) {
    (void)mine;
    (void)theirs;
    (void)opened;
    return link;
  }
  // What people have to know of the way that rows take; empty: they are encrypted, as all else.
  virtual std::string caution() const { return {}; }
};

// What the rows are made from; each takes what it needs, and objects when that is missing.
struct TransportSetting {
  NodeId self;                             // inproc
  std::shared_ptr<InprocNetwork> network;  // inproc
  std::shared_ptr<const NodeTls> tls;      // tcp, mpi
  TcpOptions tcp = {};                     // tcp, mpi
  EnrolHandler enrol = {};                 // tcp, mpi; may be null
  std::shared_ptr<MpiWorld> mpi = {};      // mpi
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
