// A cluster of processes on this machine: the same program, started again for every other node.
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "cluster/node/capabilities.h"
#include "cluster/node/cluster_spec.h"
#include "model/formats/model_file.h"
#include "runtime/nodes/event_loop.h"
#include "runtime/nodes/restart_policy.h"

namespace butterfly::runtime {

// What one of several nodes that are processes of this machine can do, for this model: measured with the
// threads of one node, in about a second, and true for all of them, because they are alike.
cluster::Capabilities measure_local_node(ThreadPool& pool, const model::ModelFile& model,
                                         const std::string& program);
// For no model: what the machine is, and no speed of products.
cluster::Capabilities measure_local_node(ThreadPool& pool, const std::string& program);

// Loopback with TLS between such nodes, as docs/distributed-generation.md has measured it.
inline constexpr cluster::LinkSpec kLocalLink{.latency_s = 100e-6, .bandwidth = 2e9};

// A folder that only this user may look into, removed with the object: for throw-away keys and certificates.
// Immutable.
class PrivateFolder {
 public:
  PrivateFolder();  // throws Error kIo
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// How a local node ended that nobody had told to, and what follows.
struct LocalNodeEnd {
  std::string name;
  std::string how;                // "its process was killed by signal 9 (Killed)"
  std::optional<Duration> again;  // until it is started again; none: it is not
  size_t restarts = 0;            // in a row, this one included
};

// Child processes that end with this one, whatever ends it, and that are started again when they end by
// themselves. Each is bound to its share of the CPUs.
//
// A thread of its own starts and watches them: the system ends children when the thread that started them
// does.
class LocalNodes {
 public:
  struct Options {
    RestartLimits restarts = {};
    std::filesystem::path program = {};  // empty: this one
  };
  LocalNodes() : LocalNodes(Options{}) {}
  explicit LocalNodes(Options options);  // remembers the CPUs of this process, which are shared out
  ~LocalNodes();                         // asks them to end, waits a moment, then ends them
  LocalNodes(const LocalNodes&) = delete;
  LocalNodes& operator=(const LocalNodes&) = delete;

  // This process is the first of `count` nodes: the calling thread, and those it starts from now on, stay on
  // its share of the CPUs. Left free they would meet other nodes on theirs, which spin for their next step.
  void bind_first(size_t count) const;

  // Called on the watching thread when a node has ended. One whose callback returns false is not started
  // again.
  using OnEnd = std::function<bool(const LocalNodeEnd&)>;
  void on_end(OnEnd callback);

  // Starts the program with these arguments. `index` of `count` shares of the CPUs. Throws Error kIo.
  void start(const std::string& name, const std::vector<std::string>& arguments, size_t index, size_t count);
  // Of those that run now.
  std::vector<pid_t> processes();

 private:
  struct Node {
    std::string name;
    std::vector<std::string> arguments;
    size_t index = 0, count = 0;
    RestartPolicy policy;
    pid_t process = 0;  // 0: it does not run
    TimePoint started_at{};
    std::optional<TimePoint> start_at = {};
  };
  Status spawn(Node& node) const;
  void watch();
  void ended(Node& node, std::string how);
  void end_all();

  const Options options_;
  const std::vector<int> cpus_;
  const std::filesystem::path program_;
  OnEnd on_end_;  // these two: on the loop's thread only
  std::vector<Node> nodes_;
  EventLoop loop_;
};

}  // namespace butterfly::runtime
