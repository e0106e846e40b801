// `butterfly status`: the cluster that this machine coordinates, or is a node of.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "cli/commands/commands.h"
#include "cli/console/exit_code.h"
#include "cli/console/interrupt.h"
#include "cli/console/options.h"
#include "cli/console/terminal.h"
#include "cli/nodes/cluster_access.h"
#include "cli/nodes/member_status.h"
#include "cli/nodes/status_output.h"

namespace butterfly::cli {
namespace {

constexpr size_t kEvents = 5;

struct StatusOptions {
  CoordinatorChoice choice;
  std::string state;
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

using Ask = std::function<cluster::ClusterStatus()>;

// The last page stays, and what follows begins below it.
int watch(const Ask& ask) {
  const struct LastLine {
    ~LastLine() { fmt::print("\n"); }
  } last_line;
  fmt::print("\033[2J");
  do {
    fmt::print("{}", page(ask(), terminal_height(STDOUT_FILENO) - 1, terminal_width(STDOUT_FILENO)));
    std::fflush(stdout);
  } while (wait_a_second());
  return kExitOk;
}

int print_status(const StatusOptions& options, const Ask& ask) {
  if (options.watch && !options.json && is_terminal(STDOUT_FILENO)) return watch(ask);
  const size_t columns = is_terminal(STDOUT_FILENO) ? terminal_width(STDOUT_FILENO) : SIZE_MAX;
  do {
    const cluster::ClusterStatus now = ask();
    fmt::print("{}", options.json ? cluster::to_json(now) + "\n" : status_text(now, kEvents, columns));
    std::fflush(stdout);
  } while (options.watch && wait_a_second());
  return kExitOk;
}

// Of a machine that is a node: what its coordinator says; when that cannot be asked, what the node itself
// knows.
int show_member(const StatusOptions& options, const MemberStatus& member) {
  if (member.cluster) {
    fmt::print(stderr, "as the coordinator at {} says\n", member.coordinator);
    bool first = true;
    return print_status(options, [&] {
      if (std::exchange(first, false)) return *member.cluster;
      return std::move(member_status(options.state)->cluster).or_throw();
    });
  }
  const std::string& why = member.cluster.status().text();
  if (!member.view)
    fail(Errc::kPeerLost, "the coordinator at {} cannot be asked, and no node has run here: {}",
         member.coordinator, why);
  fmt::print("{}", options.json ? to_json(*member.view) + "\n" : view_text(*member.view, why));
  return kExitFailure;  // what the cluster does is not known
}

int status(const StatusOptions& options) {
  if (const auto socket = options.choice.find())
    return print_status(options, [&] { return ask_status(*socket); });
  if (const auto member = member_status(options.state)) return show_member(options, *member);
  fail(
      Errc::kNotFound,
      "no cluster is coordinated here, and this machine has joined none; 'butterfly serve -m FILE --cluster' "
      "or --local-nodes N starts one, 'butterfly join' joins one");
}

}  // namespace

CommandBody setup_status(CLI::App& app) {
  auto options = std::make_shared<StatusOptions>();
  options->choice.add_to(app);
  add_state_flag(app, options->state);
  add_json_flag(app, options->json);
  add_flag(app, "--watch", options->watch, "Again every second, until Ctrl-C");
  return [options] { return status(*options); };
}

}  // namespace butterfly::cli
