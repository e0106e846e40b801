// Where other nodes come in: accepts links, asks what they are for, and hands them on.
#pragma once
#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "cluster/identity/state_folder.h"
#include "cluster/node/link_figures.h"
#include "cluster/transport/hello.h"
#include "cluster/transport/transport_table.h"
#include "cluster/weights/chunk_source.h"
#include "runtime/nodes/event_loop.h"
#include "runtime/nodes/stage_links.h"
#include "runtime/training/train_node.h"

namespace butterfly::runtime {

class LeadDesk;
class ParkedCaches;

inline constexpr Duration kStageLinkMax = std::chrono::seconds(8);  // for opening the link to the next stage

// Opens a link and says what it is for.
Result<std::unique_ptr<cluster::Link>> open_link(cluster::Transport& transport, const std::string& address,
                                                 const std::string& expected_key, const cluster::Hello& hello,
                                                 Duration timeout);

// Whether a link can be opened. Throws nothing; waits some seconds at most.
Status probe_link(cluster::Transport& transport, const std::string& address, const std::string& expected_key,
                  cluster::Hello hello);

// The state of the cluster as its coordinator sees it, asked by a member.
Result<std::string> ask_coordinator(cluster::Transport& transport, const std::string& address,
                                    const std::string& expected_key, cluster::Hello hello, Duration timeout);

// Opens links between members of a training job.
ConnectPeer train_connector(std::shared_ptr<cluster::Transport> transport, cluster::Hello hello);

// Measures the link to a peer, for NodeShell.
std::function<Result<cluster::LinkFigures>(const cluster::NodeId& peer, const std::string& address)>
link_measurer(std::shared_ptr<cluster::Transport> transport, cluster::Hello hello);

// Looks after the node's certificate, now and every hour, once it is started. `address` is that of the node
// that made the cluster.
std::unique_ptr<EventLoop> keep_certificate(const cluster::StateFolder& folder,
                                            std::shared_ptr<cluster::NodeTls> tls,
                                            const std::string& address);

// One thread accepts; each link that came has one for its greeting and, where the door itself serves it
// (weights, measurements), for its life. At most kLinksMax of them at once, and kLinksPerPeer of one node,
// which with those that were handed on has at most kOpenPerPeer: more are closed. So one member cannot take
// the places, threads and memory of the others; what a node has rightly is a link for control, a few for
// the stages of each job, one for weights and one for a probe.
class NodeDoor {
 public:
  static constexpr size_t kLinksMax = 1024;
  static constexpr size_t kLinksPerPeer = 8;
  static constexpr size_t kOpenPerPeer = 160;
  struct Options {
    std::unique_ptr<cluster::Listener> listener;
    std::shared_ptr<cluster::Transport> transport;  // of the listener; null: links stay as they come
    cluster::Hello hello;                           // ours; the purpose is the caller's
    // A link for control. Null: nobody may open one here.
    std::function<void(std::unique_ptr<cluster::Link> link, const cluster::Hello& hello)> on_control;
    // A link for training, of whoever leads a job or of another member. Null: this node trains nothing.
    std::function<void(std::unique_ptr<cluster::Link> link)> on_train;
    // What members that ask for the state of the cluster get. Null: nobody may ask here.
    std::function<std::string()> status;
    // Whose program does not fit ours, in words. May be null.
    std::function<void(const cluster::NodeId& peer, const std::string& why)> on_refused;
    std::shared_ptr<const cluster::OpenLinks> open_links;  // of this node, to count; may be null
    LeadDesk* lead = nullptr;                              // this node's vote; null: it has none
    ParkedCaches* parked = nullptr;                        // null: nobody gets pages here
    StageLinks* stage_links = nullptr;
    const cluster::WeightLibrary* library = nullptr;
  };
  explicit NodeDoor(Options options);
  ~NodeDoor();  // stop()

  const std::string& address() const { return options_.listener->address(); }
  void start();
  // Closes every link that the door serves, and waits.
  void stop();

 private:
  struct Visitor {
    std::string peer;  // key
    std::thread thread;
    std::shared_ptr<cluster::Link> link;  // null when it was handed on
    std::atomic<bool> done{false};
  };
  void accept();
  // Empty, or why one more link of this peer is not taken. With the mutex.
  std::string why_not(const cluster::NodeId& peer) const;
  void greet(Visitor& visitor, std::unique_ptr<cluster::Link> link);
  void serve(Visitor& visitor, const cluster::Hello& hello);
  void reap(bool all);

  Options options_;
  std::atomic<bool> stopping_{false};
  std::thread acceptor_;
  std::mutex mutex_;
  std::list<Visitor> visitors_;
  std::set<std::string> crowding_;  // keys that were told in the log; of the acceptor's thread
};

}  // namespace butterfly::runtime
