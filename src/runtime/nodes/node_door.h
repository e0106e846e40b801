// Where other nodes come in: accepts links, asks what they are for, and hands them on.
#pragma once
#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "cluster/identity/state_folder.h"
#include "cluster/node/link_figures.h"
#include "cluster/transport/hello.h"
#include "cluster/transport/transport_table.h"
#include "cluster/weights/chunk_source.h"
#include "runtime/nodes/event_loop.h"
#include "runtime/nodes/stage_links.h"

namespace butterfly::runtime {

// Opens a link and says what it is for.
Result<std::unique_ptr<cluster::Link>> open_link(cluster::Transport& transport, const std::string& address,
                                                 const std::string& expected_key, const cluster::Hello& hello,
                                                 Duration timeout);

// Whether a link can be opened. Throws nothing; waits some seconds at most.
Status probe_link(cluster::Transport& transport, const std::string& address, const std::string& expected_key,
                  cluster::Hello hello);

// Measures the link to a peer, for NodeShell.
std::function<Result<cluster::LinkFigures>(const cluster::NodeId& peer, const std::string& address)>
link_measurer(std::shared_ptr<cluster::Transport> transport, cluster::Hello hello);

// Looks after the node's certificate, now and every hour, once it is started. `address` is that of the node
// that made the cluster.
std::unique_ptr<EventLoop> keep_certificate(const cluster::StateFolder& folder,
                                            std::shared_ptr<cluster::NodeTls> tls,
                                            const std::string& address);

// One thread accepts; each link that came has one for its greeting and, where the door itself serves it
// (weights, measurements), for its life. At most kLinksMax at once: more are closed.
class NodeDoor {
 public:
  static constexpr size_t kLinksMax = 256;
  struct Options {
    std::unique_ptr<cluster::Listener> listener;
    cluster::Hello hello;  // ours; the purpose is the caller's
    // A link for control. Null: nobody may open one here.
    std::function<void(std::unique_ptr<cluster::Link> link, const cluster::Hello& hello)> on_control;
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
    std::thread thread;
    std::shared_ptr<cluster::Link> link;  // null when it was handed on
    std::atomic<bool> done{false};
  };
  void accept();
  void greet(Visitor& visitor, std::unique_ptr<cluster::Link> link);
  void serve(Visitor& visitor, cluster::LinkPurpose purpose);
  void reap(bool all);

  Options options_;
  std::atomic<bool> stopping_{false};
  std::thread acceptor_;
  std::mutex mutex_;
  std::list<Visitor> visitors_;
};

}  // namespace butterfly::runtime
