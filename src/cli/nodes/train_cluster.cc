#include "cli/nodes/train_cluster.h"

#include <fmt/format.h>

#include "base/error.h"
#include "cli/console/version.h"
#include "cli/nodes/cluster_serve.h"
#include "cli/nodes/node_setup.h"
#include "runtime/nodes/local_cluster.h"

namespace butterfly::cli {
namespace {

// A worker that ends costs the others a step's work: it may come back as often as it likes.
constexpr runtime::RestartLimits kRestarts{
    .in_a_row_max = 1000, .longest = std::chrono::seconds(1), .proved = std::chrono::seconds(10)};

}  // namespace

TrainCluster::TrainCluster(const TrainNodes& nodes, size_t threads,
                           std::shared_ptr<runtime::ClusterStart> start)
    : nodes_(nodes), threads_(threads), start_(std::move(start)) {
  if (nodes.cluster && nodes.local > 0)
    fail(Errc::kInvalidArgument, "--cluster and --local-nodes exclude each other");
  if (start_ != nullptr) {
    // Ranks that are there from the start.
  } else if (nodes.cluster) {
    start_ = joined_cluster(nodes.state, nodes.listen);
  } else {
    const auto local = std::make_shared<runtime::LocalCluster>(
        runtime::LocalCluster::Options{.nodes = nodes.local,
                                       .threads = threads,
                                       .restarts = kRestarts,
                                       .program = program_text(),
                                       .places = weight_places("", {}),
                                       .arguments = join_arguments});
    threads_ = local->threads();
    start_ = local;
  }
  runtime::ClusterHostOptions host;
  host.version = build_info().version;
  host.compute = &compute_;
  host_ = start_->make(std::move(host));
  host_->start();
}

TrainCluster::~TrainCluster() { host_->stop(); }

std::unique_ptr<runtime::TrainingLeader> TrainCluster::lead(train::TrainRun& run) {
  const size_t wanted = nodes_.cluster ? nodes_.wanted : nodes_.local;
  return std::make_unique<runtime::TrainingLeader>(runtime::TrainingLeader::Options{
      .run = &run,
      .name = host_->self().name,
      .nodes = [host = host_] { return host->train_nodes(); },
      .connect = host_->connect_for_training(),
      .nodes_wanted = wanted == 0 ? 0 : wanted - 1,
      .nodes_wait = std::chrono::seconds(60),
      .first_epoch = host_->first_epoch(),
      .base_id = run.config().adapter.empty() ? "" : host_->share_model(run.config().base_model),
      .say = [](const std::string& line) { fmt::print(stderr, "{}\n", line); }});
}

}  // namespace butterfly::cli
