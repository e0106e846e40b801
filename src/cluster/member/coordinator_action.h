// What the coordinator asks its shell to do. In order; none of them may block the caller of the next event.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "cluster/member/control_message.h"
#include "cluster/member/placement.h"

namespace butterfly::cluster {

struct SendToWorker {
  LinkNumber link = 0;
  ToWorker message = {};
};
// Later events of this link are ignored, so reporting its end is allowed but not needed.
struct CloseLink {
  LinkNumber link = 0;
  std::string why = {};
};
// Answer with planned().
struct MakePlan {
  PlanQuestion question = {};
};
// Finish the step of this job that runs, begin no other, and answer with steps_paused(next). If the change is
// given up before that, ServeSteps follows with the epoch that was paused.
struct PauseSteps {
  JobId job = 0;
  Epoch epoch = 0;
  Epoch next = 0;
};
// The epoch is over, lost or replaced: what is on its way will not come back, and the stages' caches are
// gone. No answer.
struct HaltSteps {
  JobId job = 0;
  Epoch epoch = 0;
  std::string why = {};
};
// All stages run: begin, or go on after a pause. The first stage takes the steps, the last one sends results.
// Answer with steps_connected() or steps_failed() when it begins.
struct ServeSteps {
  JobId job = 0;
  Epoch epoch = 0;
  Placement placement = {};
  std::vector<std::string> addresses = {};  // of the stages' first members, in order
};
using CoordinatorAction = std::variant<SendToWorker, CloseLink, MakePlan, PauseSteps, HaltSteps, ServeSteps>;

}  // namespace butterfly::cluster
