// `serve` on a cluster that several machines may lead: stands by as a node until it is this one's turn.
#pragma once
#include <atomic>
#include <memory>
#include <thread>

#include "runtime/nodes/lead_shell.h"
#include "server/settings/settings.h"

namespace butterfly::cli {

// Null: only this machine may lead, and needs nobody's leave. Else returns when it leads, or was told to end
// (end_asked_for()). Sets the journal's file where none is named. Throws Error for a machine of no cluster.
std::shared_ptr<runtime::LeadShell> lead_or_stand_by(server::Settings& settings);

// Begins the program again, as a standby, when another one leads. One thread, until it is destroyed; then it
// says to the voters that this machine does not lead any more.
class LeadWatch {
 public:
  explicit LeadWatch(std::shared_ptr<runtime::LeadShell> lead);  // may be null
  ~LeadWatch();

 private:
  const std::shared_ptr<runtime::LeadShell> lead_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace butterfly::cli
