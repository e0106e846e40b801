// What carries out the steps of one job of a cluster, as the coordinator's shell drives it: an engine and its
// chain, a training run.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/member/placement.h"

namespace butterfly::runtime {

// The shell calls connect() on a thread of the job's own and all else on its own; connected() comes from any
// thread.
class JobSteps {
 public:
  virtual ~JobSteps() = default;

  // All stages of this plan run, at these addresses: connects to them. Blocks. What it returns puts the
  // connection to use; it is called on the shell's thread, or dropped where another plan holds by then.
  // `to_blame`: whom it could not reach, where that is why there is no connection.
  using Use = std::function<void()>;
  virtual Result<Use> connect(cluster::Epoch epoch, const cluster::Placement& placement,
                              const std::vector<std::string>& addresses, cluster::NodeId& to_blame) = 0;
  // Steps under way end, no other begins; then `paused` is called, on any thread. Without a connection: at
  // once.
  virtual void pause(std::function<void()> paused) = 0;
  virtual void resume() = 0;
  // The connection is over; another one will come. Who wants steps waits.
  virtual void remove() = 0;
  // None can come for now: who wants steps hears this status, until expect() or the next connection.
  virtual void give_up(const Status& why) = 0;
  // One is on its way after all.
  virtual void expect() = 0;
  // There is one, and it is not known to be broken.
  virtual bool connected() const = 0;
  // Called when one broke by itself, once for each, with its epoch. Null: not any more.
  using Lost = std::function<void(cluster::Epoch epoch, const Status& why)>;
  virtual void on_lost(Lost lost) = 0;
};

}  // namespace butterfly::runtime
