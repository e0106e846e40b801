// How the members of a stage find each other: everybody opens links to the members behind it, and takes those
// of the members before it.
#pragma once
#include <memory>
#include <vector>

#include "cluster/member/control_message.h"
#include "cluster/transport/hello.h"
#include "cluster/transport/transport_table.h"
#include "model/arch/group_share.h"
#include "runtime/chain/stage_group.h"
#include "runtime/nodes/stage_links.h"

namespace butterfly::runtime {

// The shares of an assignment's members, as models have them; empty where the node is alone.
model::GroupShare group_share(const cluster::Assignment& work);

// The links of one member, while they come to be. Waits at most as long as each call says.
class GroupLinks {
 public:
  explicit GroupLinks(const cluster::Assignment& work) : work_(work), links_(work.members.size()) {}

  // To those behind this one. `to_blame`: who cannot be reached.
  Status open(cluster::Transport& transport, cluster::Hello hello, Duration timeout,
              cluster::NodeId& to_blame);
  // From those before it. `to_blame`: whose link does not come.
  Status take(StageLinks& links, Duration timeout, cluster::NodeId& to_blame);
  // Null where the node is alone.
  std::shared_ptr<StageGroup> group() &&;

 private:
  cluster::Assignment work_;
  std::vector<std::shared_ptr<cluster::Link>> links_;
};

// Whether the members behind this one can be reached. `to_blame` as above.
Status probe_members(const cluster::Assignment& work, cluster::Transport& transport,
                     const cluster::Hello& hello, cluster::NodeId& to_blame);

}  // namespace butterfly::runtime
