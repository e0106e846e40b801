#include "cli/nodes/mpi_serve.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "cli/console/exit_code.h"
#include "cli/console/version.h"
#include "cli/nodes/node_setup.h"
#include "runtime/nodes/mpi_cluster.h"
#include "server/cluster_options.h"

namespace butterfly::cli {
namespace {

// Those that this machine has; others are fetched.
std::vector<std::string> model_files(const server::Settings& settings) {
  std::vector<std::string> files;
  for (const std::string& model : settings.models) {
    std::error_code none;
    const std::string path = model.substr(model.find('=') + 1);
    if (std::filesystem::exists(path, none)) files.push_back(path);
  }
  return files;
}

runtime::MpiClusterOptions options_of(const std::shared_ptr<cluster::MpiWorld>& world,
                                      const server::Settings& settings) {
  const char* measured = std::getenv("BUTTERFLY_CAPABILITIES");  // as join's hidden flag
  runtime::CapabilitySource source = capability_source(measured == nullptr ? "" : measured);
  if (world->rank() > 0) source.on_measure = nullptr;  // one line is enough
  return {
      .world = world, .places = weight_places("", model_files(settings)), .capabilities = std::move(source)};
}

}  // namespace

std::unique_ptr<MpiServe> MpiServe::join(server::Settings& settings) {
  if (!runtime::is_rank_of_several()) return nullptr;
  if (settings.cluster || settings.local_nodes > 0)
    fail(Errc::kInvalidArgument,
         "the ranks of an MPI job are a cluster already: leave out {}, or start one process without mpirun",
         settings.cluster ? "--cluster" : "--local-nodes");
  std::unique_ptr<MpiServe> rank(new MpiServe(cluster::MpiWorld::join()));
  const size_t threads = runtime::threads_of_rank(*rank->world_);
  if (settings.threads == 0) settings.threads = threads;
  return rank;
}

int MpiServe::run(const std::function<int()>& body) const {
  int status = kExitFailure;
  try {
    status = body();
  } catch (const std::exception& error) {
    // Others wait for this rank, and would for ever.
    fmt::print(stderr, "butterfly: error: rank {}: {}\n", world_->rank(), error.what());
    world_->abort(kExitFailure);
  }
  if (is_first()) world_->tell_end();
  world_->finish();
  return status;
}

std::shared_ptr<runtime::ClusterStart> MpiServe::cluster_start(const server::Settings& settings) const {
  server::check_cluster_settings(settings, true);
  return std::make_shared<runtime::MpiCluster>(options_of(world_, settings));
}

std::shared_ptr<runtime::ClusterStart> MpiServe::training_start() const {
  return std::make_shared<runtime::MpiCluster>(options_of(world_, {}));
}

void MpiServe::work(const server::Settings& settings) const {
  install_end_signals();
  Compute compute(settings.threads);
  runtime::MpiNode node(options_of(world_, settings));
  node.run(compute, build_info().version, [] { return end_asked_for(); });
}

}  // namespace butterfly::cli
