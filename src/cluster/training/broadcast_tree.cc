#include "cluster/training/broadcast_tree.h"

namespace butterfly::cluster {

std::vector<BroadcastRow> broadcast_tree(const std::set<TrainMemberId>& members) {
  std::vector<BroadcastRow> rows{{.member = kTrainLeader, .from = kTrainLeader}};
  for (const TrainMemberId member : members) {
    if (member == kTrainLeader) continue;
    BroadcastRow& parent = rows[(rows.size() - 1) / 2];
    parent.to.push_back(member);
    const TrainMemberId from = parent.member;
    rows.push_back({.member = member, .from = from});
  }
  return rows;
}

}  // namespace butterfly::cluster
