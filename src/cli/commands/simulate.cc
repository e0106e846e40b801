// `butterfly simulate`: plays a workload against a plan, or steps of training on nodes, on a virtual clock.
#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/units.h"
#include "cli/commands/commands.h"
#include "cli/console/exit_code.h"
#include "cli/console/flags.h"
#include "cli/console/options.h"
#include "cli/nodes/plan_output.h"
#include "cluster/picture/gantt_picture.h"
#include "cluster/sim/workload_file.h"
#include "cluster/training/step_sim.h"

namespace butterfly::cli {
namespace {

struct SimulateOptions {
  std::string plan;
  std::string workload;
  std::string strategy;
  std::string svg;
  std::string training;
  size_t intervals = 600;
  double from_s = 0;
  uint64_t seed = 0;
  bool json = false;
};

int simulate(const SimulateOptions& options) {
  const PlanFile plan = read_plan_file(options.plan, options.strategy);
  cluster::Workload workload = cluster::read_workload(options.workload, plan.cluster);
  if (options.seed != 0) workload.seed = options.seed;
  const cluster::SimOptions picture{.intervals_max = options.svg.empty() ? 0 : options.intervals,
                                    .intervals_from_s = options.from_s};
  const auto start = std::chrono::steady_clock::now();
  const cluster::SimReport report = cluster::simulate(plan.cluster, workload, picture);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  if (options.json) {
    fmt::print("{}\n", json_text(simulation_json(plan, report), 2));
  } else {
    print_simulation(plan, report, took.count());
  }
  if (!options.svg.empty()) {
    write_text_file(options.svg, cluster::gantt_picture(plan.cluster, report,
                                                        fmt::format("{} ({})", plan.model, plan.strategy)));
    fmt::print(stderr, "wrote {}\n", options.svg);
  }
  return kExitOk;
}

int simulate_training(const SimulateOptions& options) {
  if (!options.plan.empty())
    fail(Errc::kInvalidArgument, "--training plays steps of training, and takes no plan; found '{}'",
         options.plan);
  const cluster::StepSimSpec spec = cluster::read_step_sim(options.training);
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (!options.json)
    fmt::print("{} nodes, {} micro-batches a step\n{:<18}{:>10}{:>10}{:>12}{:>12}{:>14}\n", spec.nodes.size(),
               spec.micro_batches, "MODE", "STEP", "COMPUTE", "SUMS THERE", "SENT", "BUSIEST LINK");
  for (const cluster::StepSimMode& mode : cluster::step_sim_modes()) {
    const cluster::StepSimReport row = cluster::simulate_step(spec, mode);
    rows.push_back({{"mode", row.mode},
                    {"step_s", row.step_s},
                    {"compute_s", row.compute_s},
                    {"prepared_s", row.prepared_s},
                    {"bytes", row.bytes},
                    {"busiest_link", row.busiest}});
    if (!options.json)
      fmt::print("{:<18}{:>8.3f} s{:>8.3f} s{:>10.3f} s{:>12}{:>12.0f} %\n", row.mode, row.step_s,
                 row.compute_s, row.prepared_s, format_bytes(static_cast<uint64_t>(row.bytes)),
                 100 * row.busiest);
  }
  if (options.json) fmt::print("{}\n", json_text(rows, 2));
  return kExitOk;
}

}  // namespace

CommandBody setup_simulate(CLI::App& app) {
  auto options = std::make_shared<SimulateOptions>();
  add_option(app, "PLAN", options->plan, "A plan, as `butterfly plan MODEL --json` writes it");
  add_option(app, "WORKLOAD", options->workload, "TOML file of arrivals, lengths, slow-downs and failures");
  add_option(app, "--training", options->training,
             "Instead: seconds of a training step in every wire mode, on the nodes and links of a TOML file")
      .type_name("FILE");
  add_option(app, "--strategy", options->strategy, "Which plan of the file (default: the first)");
  add_option(app, "--svg", options->svg, "Also a picture of what every node did when").type_name("FILE");
  add_option(app, "--steps", options->intervals, "Steps in the picture").show_default();
  add_option(app, "--from", options->from_s, "Where the picture begins, in seconds").show_default();
  add_option(app, "-s,--seed", options->seed, "Instead of the workload's");
  add_json_flag(app, options->json);
  return [options] {
    if (!options->training.empty()) return simulate_training(*options);
    if (options->plan.empty() || options->workload.empty())
      fail(Errc::kInvalidArgument, "simulate: expected PLAN and WORKLOAD, or --training FILE");
    return simulate(*options);
  };
}

}  // namespace butterfly::cli
