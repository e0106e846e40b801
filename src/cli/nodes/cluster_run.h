// `run` and `chat` on several nodes: processes of this machine that have layers, or parts of each layer.
#pragma once
#include <memory>
#include <string>

#include "base/compute.h"
#include "model/adapter/adapter.h"
#include "runtime/engine/local_engine.h"
#include "runtime/nodes/local_cluster.h"

namespace CLI {
class App;
}  // namespace CLI

namespace butterfly::cli {

struct RunNodes {
  size_t local = 0;  // this process included; 0: it computes alone
  std::string groups = "off";

  void add_to(CLI::App& app);
  // Throws Error for flags that do not go together.
  bool wanted() const;
};

// A cluster for one engine. It ends with its processes when this does. One thread.
class ClusterRun {
 public:
  // `threads` of each node; 0: an equal share of the CPUs.
  ClusterRun(const RunNodes& nodes, size_t threads);
  ~ClusterRun();

  // The model, described as it is at `path`, with its adapters on all nodes. Waits until it is served, and
  // says who runs what unless `quiet`. Throws Error: what does not fit, kCancelled after Ctrl-C. Once.
  runtime::Engine& serve(const std::filesystem::path& path, const runtime::LoadedModel& model,
                         const std::vector<model::AdapterSpec>& adapters,
                         const runtime::LocalEngineOptions& options, bool quiet);

 private:
  const RunNodes nodes_;
  std::shared_ptr<runtime::LocalCluster> start_;
  Compute compute_;
  std::shared_ptr<runtime::ClusterHost> host_;
  std::shared_ptr<runtime::Engine> engine_;
};

}  // namespace butterfly::cli
