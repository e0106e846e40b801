// A cluster of processes on this machine: the same program, started again for every other node.
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "cluster/node/capabilities.h"
#include "cluster/node/cluster_spec.h"
#include "model/formats/model_file.h"

namespace butterfly::runtime {

// What one of several nodes that are processes of this machine can do, for this model: measured with the
// threads of one node, in about a second, and true for all of them, because they are alike.
cluster::Capabilities measure_local_node(ThreadPool& pool, const model::ModelFile& model,
                                         const std::string& program);

// Loopback with TLS between such nodes, as docs/distributed-generation.md has measured it.
inline constexpr cluster::LinkSpec kLocalLink{.latency_s = 100e-6, .bandwidth = 2e9};

// A folder that only this user may look into, removed with the object: for throw-away keys and certificates.
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

// Child processes that end with this one, whatever ends it. Each is bound to its share of the CPUs.
//
// Make and destroy it on a thread that lives as long as the program: the system ends children when the thread
// that started them does.
class LocalNodes {
 public:
  LocalNodes();   // remembers the CPUs of this process, which are shared out
  ~LocalNodes();  // asks them to end, waits a moment, then ends them
  LocalNodes(const LocalNodes&) = delete;
  LocalNodes& operator=(const LocalNodes&) = delete;

  // This process is the first of `count` nodes: the calling thread, and those it starts from now on, stay on
  // its share of the CPUs. Left free they would meet other nodes on theirs, which look for their next step
  // awake.
  void bind_first(size_t count) const;

  // Starts this program with these arguments. `index` of `count` shares of the CPUs. Throws Error kIo.
  void start(const std::vector<std::string>& arguments, size_t index, size_t count);
  const std::vector<pid_t>& processes() const { return processes_; }

 private:
  const std::vector<int> cpus_;
  std::vector<pid_t> processes_;
};

}  // namespace butterfly::runtime
