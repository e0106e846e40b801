// What the members of a training job agree on for an epoch and for a step.
#pragma once
#include <algorithm>
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

// Neighbouring pieces of the network (the embedding, blocks, the head) and who trains them.
struct PipelineStage {
  TrainMemberId member = kTrainLeader;
  uint32_t begin = 0, end = 0;
  friend bool operator==(const PipelineStage&, const PipelineStage&) = default;
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
  // None empty, by blocks. In a pipeline one member may have two: the table that a tied head shares with the
  // embedding stands before all others.
  std::vector<OwnedShard> shards = {};
  std::vector<HeldSlots> held = {};  // none empty, by slots; empty: nobody keeps anything of slots
  // Where the network is cut into stages instead, in the order of its pieces: every member of a stage has all
  // micro-batches. Empty: every member has the whole network.
  std::vector<PipelineStage> stages = {};
  bool tied = false;                           // of a pipeline: the head shares the embedding's table
  uint32_t in_flight = 0;                      // of a pipeline: micro-batches on their way, at least
  bool weights_come = false;                   // to the member that gets this: all of them,
  TrainMemberId weights_from = kTrainLeader;   // from this one,
  std::vector<TrainMemberId> weights_to = {};  // and it passes them on to these
  bool moments_come = false;                   // those of its shard, and what it keeps of its slots

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
  bool pipelined() const { return !stages.empty(); }
  // Its number; stages.size(): it has none.
  size_t stage_of(TrainMemberId id) const {
    size_t i = 0;
    while (i < stages.size() && stages[i].member != id) ++i;
    return i;
  }
  // Micro-batches that have gone forward at a stage and not come back: enough to keep all stages busy. The
  // last one has no more than one.
  size_t in_flight_at(size_t stage) const {
    return stage + 1 == stages.size() ? 1 : std::max<size_t>(in_flight, stages.size() - stage);
  }
  // Whether the ends of the pipeline exchange gradients of the table that they share, and the table itself.
  bool table_apart() const { return tied && stages.size() > 1; }
  // Whether two members of a pipeline exchange values.
  bool neighbours(TrainMemberId a, TrainMemberId b) const {
    const size_t i = std::min(stage_of(a), stage_of(b)), j = std::max(stage_of(a), stage_of(b));
    return i != j && j < stages.size() && (i + 1 == j || (tied && i == 0 && j + 1 == stages.size()));
  }
  // Whether something of the run is lost with it.
  bool keeps_state(TrainMemberId id) const {
    return shard_of(id) != nullptr || held_by(id) != nullptr || stage_of(id) < stages.size();
  }
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
