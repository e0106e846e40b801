// What the members of a training job agree on for an epoch and for a step.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/pair_tree.h"
#include "cluster/identity/node_id.h"
#include "cluster/member/epoch.h"

namespace butterfly::cluster {

// A member of a job, as its leader numbers them. Never used twice in a run. 0: the leader itself.
using TrainMemberId = uint32_t;
inline constexpr TrainMemberId kTrainLeader = 0;
inline constexpr size_t kTrainMembersMax = 256;

// Neighbouring norm blocks and who keeps moments of them, updates them and sends them to the others.
struct OwnedShard {
  TrainMemberId owner = kTrainLeader;
  uint32_t begin = 0, end = 0;  // blocks
  friend bool operator==(const OwnedShard&, const OwnedShard&) = default;
};

// Neighbouring slots and who computes them: it keeps what coding left of their gradients.
struct HeldSlots {
  TrainMemberId member = kTrainLeader;
  uint32_t begin = 0, end = 0;
  friend bool operator==(const HeldSlots&, const HeldSlots&) = default;
};

// Holds from one change of members to the next. Every message of a step carries its epoch; older ones are
// dropped.
struct TrainPlan {
  Epoch epoch = 0;
  uint64_t step = 0;  // steps done: the weights that it begins with
  // Gradients are sent as sums of so many parts of a step, each a subtree of the same level; 0: as the
  // largest subtrees that a member has.
  uint32_t slots = 0;
  struct Member {
    TrainMemberId id = 0;
    NodeId node = {};
    std::string address = {};  // where it accepts links of peers; empty: nowhere
    friend bool operator==(const Member&, const Member&) = default;
  };
  std::vector<Member> members = {};
  std::vector<OwnedShard> shards = {};  // none empty, by blocks
  std::vector<HeldSlots> held = {};     // none empty, by slots; empty: nobody keeps anything of slots
  bool weights_come = false;            // to the member that gets this: all of them, from the leader
  bool moments_come = false;            // those of its shard, and what it keeps of its slots

  const Member* find(TrainMemberId id) const {
    for (const Member& member : members)
      if (member.id == id) return &member;
    return nullptr;
  }
  const OwnedShard* shard_of(TrainMemberId id) const {
    for (const OwnedShard& shard : shards)
      if (shard.owner == id) return &shard;
    return nullptr;
  }
  const HeldSlots* held_by(TrainMemberId id) const {
    for (const HeldSlots& row : held)
      if (row.member == id) return &row;
    return nullptr;
  }
  // Whether something of the run is lost with it.
  bool keeps_state(TrainMemberId id) const { return shard_of(id) != nullptr || held_by(id) != nullptr; }
  // No sum that is sent is of a higher level, in steps of so many leaves.
  uint32_t level_max(size_t leaves) const {
    return slots == 0 ? PairTree::kLevelsMax : PairTree(leaves).level_of_at_most(slots);
  }
};

// Who computes which micro-batches of a step.
struct DealtLeaves {
  TrainMemberId member = 0;
  LeafRange leaves = {};
  friend bool operator==(const DealtLeaves&, const DealtLeaves&) = default;
};

}  // namespace butterfly::cluster
