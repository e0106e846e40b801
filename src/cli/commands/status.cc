// `butterfly status`: the cluster that this machine coordinates.
#include <fmt/format.h>

#include <cstdio>
#include <thread>

#include "base/error.h"
#include "cli/cluster_access.h"
#include "cli/commands/commands.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/status_output.h"
#include "cli/terminal.h"

namespace butterfly::cli {
namespace {

struct StatusOptions {
  CoordinatorChoice choice;
  bool json = false, watch = false;
};

int status(const StatusOptions& options) {
  const auto socket = options.choice.find();
  if (!socket)
    fail(Errc::kNotFound,
         "no cluster is coordinated here; start one with 'butterfly serve -m FILE --cluster' or "
         "--local-nodes N");
  do {
    const cluster::ClusterStatus now = ask_status(*socket);
    const std::string text = options.json ? cluster::to_json(now) + "\n" : status_text(now);
    // A page that is drawn over the last one; in a pipe one follows the other.
    if (options.watch && !options.json && is_terminal(fileno(stdout))) fmt::print("\033[H\033[2J");
    fmt::print("{}", text);
    std::fflush(stdout);
    for (int i = 0; options.watch && i < 10 && !interrupted(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
  } while (options.watch && !interrupted());
  return kExitOk;
}

}  // namespace

CommandBody setup_status(CLI::App& app) {
  auto options = std::make_shared<StatusOptions>();
  options->choice.add_to(app);
  add_json_flag(app, options->json);
  add_flag(app, "--watch", options->watch, "Again every second, until Ctrl-C");
  return [options] { return status(*options); };
}

}  // namespace butterfly::cli
