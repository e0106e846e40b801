// `butterfly promote`: a person decides that this standby leads from now on.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "cli/commands/commands.h"
#include "cli/console/exit_code.h"
#include "cli/console/interrupt.h"
#include "cli/nodes/cluster_access.h"
#include "cluster/identity/credentials.h"
#include "runtime/nodes/lead_shell.h"

namespace butterfly::cli {
namespace {

constexpr Duration kLook = std::chrono::milliseconds(100);
constexpr Duration kMost = std::chrono::seconds(20);

cluster::VoterRecord record_in(const cluster::StateFolder& folder) {
  return runtime::LeadDesk({.folder = folder, .authority = cluster::load_credentials(folder).authority})
      .record();
}

int promote(const std::string& state) {
  const cluster::StateFolder folder = open_state(state);
  const cluster::NodeId self = cluster::load_credentials(folder).id();
  const cluster::VoterRecord before = record_in(folder);
  if (before.mandate.version == 0 && cluster::Authority::is_here(folder))
    fail(Errc::kInvalidArgument,
         "{} leads its cluster already: nobody else may ('butterfly serve ... --standby NAME' names who may)",
         self.name);
  if (!before.mandate.may_lead(self.key) && std::ranges::count(before.mandate.voters, self) > 0)
    fail(Errc::kInvalidArgument,
         "{} votes on who leads, and holds no journal to lead with: 'butterfly serve ... --standby {}' where "
         "the cluster was "
         "made, instead of --witness, and 'butterfly serve' here",
         self.name, self.name);
  if (!before.mandate.may_lead(self.key))
    fail(Errc::kInvalidArgument,
         "{} is no standby: 'butterfly serve ... --standby {}' where the cluster was made makes it one",
         self.name, self.name);
  folder.write(runtime::LeadShell::kPromoteFile, "\n");
  const Deadline deadline(SystemClock::instance(), kMost);
  while (!deadline.expired()) {
    throw_if_interrupted();
    const cluster::VoterRecord now = record_in(folder);
    if (now.promised > before.promised && cluster::holder_key(now.holder) == self.key) {
      fmt::print(stderr, "{} leads the cluster\n", self.name);
      return kExitOk;
    }
    SystemClock::instance().sleep_for(kLook);
  }
  folder.remove(runtime::LeadShell::kPromoteFile);
  fail(Errc::kTimeout, "{}: no 'butterfly serve' stands by with this folder, or it leads already",
       folder.path().string());
}

}  // namespace

CommandBody setup_promote(CLI::App& app) {
  auto state = std::make_shared<std::string>();
  add_state_flag(app, *state);
  return [state] { return promote(*state); };
}

}  // namespace butterfly::cli
