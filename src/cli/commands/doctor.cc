// `butterfly doctor`: what may keep this machine or its cluster from working well, and the fix.
#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/cgroup.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/free_memory.h"
#include "base/json_text.h"
#include "cli/commands/commands.h"
#include "cli/console/exit_code.h"
#include "cli/console/options.h"
#include "cli/console/terminal.h"
#include "cli/nodes/cluster_access.h"
#include "cli/nodes/doctor_checks.h"
#include "cli/nodes/member_status.h"
#include "cluster/node/addresses.h"
#include "kernels/simd/target.h"
#include "server/management_client.h"

namespace butterfly::cli {
namespace {

struct DoctorOptions {
  std::string state, reach;
  size_t cluster_port = cluster::kClusterPort, http_port = 8080;
  CoordinatorChoice choice;
  bool json = false, discover = false;
};

std::string_view level_name(Level level) {
  return level == Level::kOk ? "ok" : level == Level::kWarning ? "warning" : "problem";
}

Findings look(const DoctorOptions& options) {
  Findings all;
  const auto add = [&](Findings more) { all.insert(all.end(), more.begin(), more.end()); };
  const bool runs = !server::running_servers().empty();
  add(check_identity(state_path(options.state), cluster::wall_now()));
  add(check_port("cluster port", static_cast<uint16_t>(options.cluster_port), false, runs));
  add(check_port("HTTP port", static_cast<uint16_t>(options.http_port), false, runs));
  add(check_cpu(kernels::available_targets()));
  add(check_cpu_quota(cgroup_cpu_quota(), allowed_cpus().size()));
  const uint64_t machine =
      static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGE_SIZE));
  add(check_memory(free_memory_bytes(), memory_limit_bytes(), machine));
  add(check_measured(state_path(options.state), default_thread_count(), cluster::wall_now()));
  if (!options.reach.empty()) add(check_reach(options.reach, std::chrono::seconds(3)));
  if (options.discover) add(check_network(cluster::discover(std::chrono::seconds(1))));
  if (const auto socket = options.choice.find()) {
    add(check_cluster(ask_status(*socket)));
  } else if (const auto member = options.choice.given() ? std::nullopt : member_status(options.state)) {
    add(check_member(*member));
  }
  return all;
}

int doctor(const DoctorOptions& options) {
  const Findings all = look(options);
  bool problems = false;
  for (const Finding& found : all) problems = problems || found.level == Level::kProblem;
  if (options.json) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const Finding& found : all)
      rows.push_back({{"level", level_name(found.level)},
                      {"check", found.check},
                      {"text", found.text},
                      {"fix", found.fix}});
    fmt::print("{}\n", json_text(rows, 2));
    return problems ? kExitFailure : kExitOk;
  }
  const bool color = use_color(STDOUT_FILENO);
  for (const Finding& found : all) {
    const char* paint = !color                           ? ""
                        : found.level == Level::kOk      ? "\033[32m"
                        : found.level == Level::kWarning ? "\033[33m"
                                                         : "\033[31m";
    fmt::print("{}{:<8}{} {:<13} {}\n", paint, level_name(found.level), color ? "\033[0m" : "", found.check,
               found.text);
    if (!found.fix.empty()) fmt::print("{:<22} fix: {}\n", "", found.fix);
  }
  return problems ? kExitFailure : kExitOk;
}

}  // namespace

CommandBody setup_doctor(CLI::App& app) {
  auto options = std::make_shared<DoctorOptions>();
  add_option(app, "HOST", options->reach, "Also try to reach this coordinator: HOST[:PORT]");
  add_state_flag(app, options->state);
  add_option(app, "--cluster-port", options->cluster_port, "Port for links between nodes")
      .range(1, 65535)
      .type_name("N")
      .show_default();
  add_option(app, "--http-port", options->http_port, "Port for requests")
      .range(1, 65535)
      .type_name("N")
      .show_default();
  add_flag(app, "--discover", options->discover, "Also ask the local network for clusters");
  options->choice.add_to(app);
  add_json_flag(app, options->json);
  return [options] { return doctor(*options); };
}

}  // namespace butterfly::cli
