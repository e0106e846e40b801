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

// Holds from one change of members to the next. Every message of a step carries its epoch; older ones are
// dropped.
struct TrainPlan {
  Epoch epoch = 0;
  uint64_t step = 0;  // steps done: the weights that it begins with
  struct Member {
    TrainMemberId id = 0;
    NodeId node = {};
    std::string address = {};  // where it accepts links of peers; empty: nowhere
    friend bool operator==(const Member&, const Member&) = default;
  };
  std::vector<Member> members = {};
  std::vector<OwnedShard> shards = {};  // none empty, by blocks
  bool weights_come = false;            // to the member that gets this: all of them, from the leader
  bool moments_come = false;            // those of its shard

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
};

// Who computes which micro-batches of a step.
struct DealtLeaves {
  TrainMemberId member = 0;
  LeafRange leaves = {};
  friend bool operator==(const DealtLeaves&, const DealtLeaves&) = default;
};

}  // namespace butterfly::cluster
