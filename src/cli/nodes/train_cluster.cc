#include "cli/nodes/train_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/units.h"
#include "cli/console/version.h"
#include "cli/nodes/cluster_serve.h"
#include "cli/nodes/node_setup.h"
#include "runtime/nodes/local_cluster.h"

namespace butterfly::cli {
namespace {

using Json = nlohmann::ordered_json;

// A worker that ends costs the others a step's work: it may come back as often as it likes.
constexpr runtime::RestartLimits kRestarts{
    .in_a_row_max = 1000, .longest = std::chrono::seconds(1), .proved = std::chrono::seconds(10)};

}  // namespace

TrainCluster::TrainCluster(const TrainNodes& nodes, size_t threads) : nodes_(nodes), threads_(threads) {
  if (nodes.cluster && nodes.local > 0)
    fail(Errc::kInvalidArgument, "--cluster and --local-nodes exclude each other");
  if (nodes.cluster) {
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
      .say = [](const std::string& line) { fmt::print(stderr, "{}\n", line); }});
}

std::string training_report_json(const runtime::TrainingReport& report, uint64_t steps) {
  const auto& c = report.counters;
  Json json{{"step", report.step},
            {"steps", steps},
            {"epochs", c.epochs},
            {"joined", c.joined},
            {"lost", c.lost},
            {"steps_dealt_again", c.steps_redone},
            {"steps_computed_again", c.steps_rolled_back},
            {"nodes_that_differed", c.differing},
            {"wire_mode", report.wire},
            {"wire_slots", report.plan.slots},
            {"nodes", Json::array()}};
  for (const auto& member : report.members)
    json["nodes"].push_back({{"name", member.name},
                             {"number", member.id},
                             {"here", member.here},
                             {"micro_batches", member.leaves},
                             {"micro_batches_per_s", member.speed},
                             {"blocks", member.shard_end - member.shard_begin},
                             {"seconds",
                              {{"compute", member.times.compute},
                               {"serialise", member.times.serialise},
                               {"compress", member.times.compress},
                               {"wire", member.times.wire},
                               {"reduce", member.times.reduce},
                               {"update", member.times.update},
                               {"wait", member.times.wait}}},
                             {"gradient_bytes", member.gradient_bytes},
                             {"gradient_bytes_sent", member.gradient_bytes_sent},
                             {"weight_bytes", member.weight_bytes},
                             {"weight_bytes_sent", member.weight_bytes_sent},
                             {"compress_gradients", member.packing_gradients},
                             {"compress_weights", member.packing_weights},
                             {"bytes_sent", member.bytes_sent},
                             {"bytes_received", member.bytes_received}});
  return json_text(json);
}

std::string training_report_text(std::string_view text) {
  const Json json = json_of_text_or_none<Json>(text);
  try {
    size_t width = 4;
    for (const Json& node : json.at("nodes"))
      width = std::max(width, node.at("name").get<std::string>().size());
    std::string lines =
        fmt::format("{:<{}}  {:>13}  {:>9}  {:>6}  {:>9}  {:>9}  {:>9}  {:>9}  {:>9}  {:>9}  {:>9}  {:>9}\n",
                    "NODE", width, "MICRO-BATCHES", "PER S", "BLOCKS", "COMPUTE", "SERIALISE", "WIRE",
                    "REDUCE", "UPDATE", "WAIT", "SENT", "RECEIVED");
    uint64_t as_floats = 0, as_sent = 0;
    for (const Json& node : json.at("nodes")) {
      const Json& seconds = node.at("seconds");
      lines += fmt::format(
          "{:<{}}  {:>13}  {:>9.1f}  {:>6}  {:>8.2f}s  {:>8.2f}s  {:>8.2f}s  {:>8.2f}s  {:>8.2f}s  {:>8.2f}s "
          " "
          "{:>9}  {:>9}{}\n",
          node.at("name").get<std::string>(), width, node.at("micro_batches").get<uint64_t>(),
          node.at("micro_batches_per_s").get<double>(), node.at("blocks").get<uint64_t>(),
          seconds.at("compute").get<double>(), seconds.at("serialise").get<double>(),
          seconds.at("wire").get<double>(), seconds.at("reduce").get<double>(),
          seconds.at("update").get<double>(), seconds.at("wait").get<double>(),
          format_bytes(node.at("bytes_sent").get<uint64_t>()),
          format_bytes(node.at("bytes_received").get<uint64_t>()),
          node.at("here").get<bool>() ? "" : "  lost");
      as_floats += node.at("gradient_bytes").get<uint64_t>();
      as_sent += node.at("gradient_bytes_sent").get<uint64_t>();
    }
    const auto mode = json.at("wire_mode").get<std::string>();
    lines += fmt::format("gradients: {}", mode);
    if (mode != "exact")
      lines +=
          fmt::format(" in {} slots, which is not the result of exact sums; {} sent for {} of floats",
                      json.at("wire_slots").get<uint64_t>(), format_bytes(as_sent), format_bytes(as_floats));
    // Of the leading node: others have links of their own, in the JSON.
    const Json& first = json.at("nodes").at(0);
    lines += fmt::format("\ncompression: gradients {}; weights {}\n",
                         first.at("compress_gradients").get<std::string>(),
                         first.at("compress_weights").get<std::string>());
    return lines +
           fmt::format(
               "step {} of {}; {} joined, {} lost, {} steps dealt again, {} computed again from a snapshot\n",
               json.at("step").get<uint64_t>(), json.at("steps").get<uint64_t>(),
               json.at("joined").get<uint64_t>(), json.at("lost").get<uint64_t>(),
               json.at("steps_dealt_again").get<uint64_t>(), json.at("steps_computed_again").get<uint64_t>());
  } catch (const nlohmann::json::exception& error) {
    fail(Errc::kCorrupt, "{}: {}", kTrainNodesFile, error.what());
  }
}

}  // namespace butterfly::cli
