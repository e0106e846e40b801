// A node that works for a coordinator elsewhere: what `join` runs until it is told to end.
#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "cluster/node/capabilities.h"
#include "runtime/nodes/lead_desk.h"
#include "runtime/nodes/node_door.h"
#include "runtime/nodes/node_shell.h"
#include "runtime/nodes/worker_backend.h"

namespace butterfly::runtime {

class TrainingBackend;
class TrainingWorker;

struct ClusterNodeOptions {
  std::filesystem::path state;  // a StateFolder with the node's certificate
  std::string coordinator;      // "host:port"
  std::string listen;     // for the other nodes; empty: any port on the address that reaches the coordinator
  std::string advertise;  // what the others shall use; empty: as listened on
  std::string version;
  cluster::Capabilities capabilities;
  WeightPlaces places;
  uint64_t memory_bytes = 0;  // bound for its stages; 0: what is free
  uint64_t fetch_bytes_per_s = 0;
  Compute* compute = nullptr;                   // borrowed
  std::shared_ptr<cluster::MpiWorld> mpi = {};  // rows go over it where they can; null: they do not
  std::shared_ptr<LeadDesk> desk = {};          // of a node that may lead; null: one is made
  std::function<void(const std::string& why)> on_given_up;
};

// Connects, stays connected, and does what it is told, until stop(). Its threads are those of the shell, the
// door and the stage; start() and stop() come from one thread, view() from any. After stop() it is of no more
// use. Throws Error where the port cannot be had or the node belongs to no cluster.
class ClusterNode {
 public:
  explicit ClusterNode(ClusterNodeOptions options);
  ~ClusterNode();

  void start();
  // As NodeShell::retire().
  void retire(const std::string& why) { shell_->retire(why); }
  // Whether other nodes may still ask for what its cache held: it should not end yet.
  bool cache_wanted() const { return !parked_->empty(); }
  void stop(const std::string& why);
  NodeShell::View view() const { return shell_->view(); }
  const cluster::NodeId& self() const { return self_; }
  const std::string& address() const { return address_; }

 private:
  cluster::NodeId self_;
  std::shared_ptr<LeadDesk> desk_;
  std::shared_ptr<cluster::WeightLibrary> library_ = std::make_shared<cluster::WeightLibrary>();
  StageLinks stage_links_;
  const std::shared_ptr<ParkedCaches> parked_ = std::make_shared<ParkedCaches>();
  std::string address_;
  std::unique_ptr<TrainingWorker> training_;
  std::shared_ptr<TrainingBackend> training_place_;
  std::unique_ptr<NodeDoor> door_;
  std::unique_ptr<NodeShell> shell_;
  std::unique_ptr<EventLoop> renewal_;
};

// The address of this machine on the way to `address`; without a port. Throws Error kNotFound.
std::string local_address_towards(const std::string& address);

// `address` as another node can use it: a host that means "any" is replaced by the one that `via` names.
std::string reachable_address(const std::string& address, const std::string& via);

}  // namespace butterfly::runtime
