// Who passes weights on to whom when several members need them at once.
#pragma once
#include <set>
#include <vector>

#include "cluster/training/train_plan.h"

namespace butterfly::cluster {

struct BroadcastRow {
  TrainMemberId member = 0, from = 0;
  std::vector<TrainMemberId> to = {};
};

// A binary tree with the leader at its root: row 0 is the leader's, the others follow as the members do.
// Parts of the weights are passed on as they come, so that n members have them after about the time in which
// one node sends them twice, instead of n times; nobody sends more than two copies.
std::vector<BroadcastRow> broadcast_tree(const std::set<TrainMemberId>& members);

}  // namespace butterfly::cluster
