// `butterfly status`: the cluster that this machine coordinates.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "base/error.h"
#include "cli/commands/commands.h"
#include "cli/console/exit_code.h"
#include "cli/console/interrupt.h"
#include "cli/console/options.h"
#include "cli/console/terminal.h"
#include "cli/nodes/cluster_access.h"
#include "cli/nodes/status_output.h"

namespace butterfly::cli {
namespace {

constexpr size_t kEvents = 5;

struct StatusOptions {
  CoordinatorChoice choice;
  bool json = false, watch = false;
};

// False: Ctrl-C.
bool wait_a_second() {
  for (int i = 0; i < 10 && !interrupted(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return !interrupted();
}

// As many events as there is room for.
std::string page(const cluster::ClusterStatus& now, size_t rows, size_t columns) {
  const std::string fixed = status_text(now, 0, columns);
  const size_t used = static_cast<size_t>(std::ranges::count(fixed, '\n')) + 1;
  return page_over(status_text(now, rows - std::min(rows, used), columns), rows, columns);
}

// The last page stays, and what follows begins below it.
int watch(const std::filesystem::path& socket) {
  const struct LastLine {
    ~LastLine() { fmt::print("\n"); }
  } last_line;
  fmt::print("\033[2J");
  do {
    fmt::print("{}",
               page(ask_status(socket), terminal_height(STDOUT_FILENO) - 1, terminal_width(STDOUT_FILENO)));
    std::fflush(stdout);
  } while (wait_a_second());
  return kExitOk;
}

int status(const StatusOptions& options) {
  const auto socket = options.choice.find();
  if (!socket)
    fail(Errc::kNotFound,
         "no cluster is coordinated here; start one with 'butterfly serve -m FILE --cluster' or "
         "--local-nodes N");
  if (options.watch && !options.json && is_terminal(STDOUT_FILENO)) return watch(*socket);
  const size_t columns = is_terminal(STDOUT_FILENO) ? terminal_width(STDOUT_FILENO) : SIZE_MAX;
  do {
    const cluster::ClusterStatus now = ask_status(*socket);
    fmt::print("{}", options.json ? cluster::to_json(now) + "\n" : status_text(now, kEvents, columns));
    std::fflush(stdout);
  } while (options.watch && wait_a_second());
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
