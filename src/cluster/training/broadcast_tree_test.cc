// Everybody gets the weights once, from somebody who has them, and nobody sends more than two copies.
#include "cluster/training/broadcast_tree.h"

#include <gtest/gtest.h>

#include <map>

namespace butterfly::cluster {
namespace {

TEST(BroadcastTree, EverybodyGetsThemOnceAndNobodySendsMoreThanTwoCopies) {
  for (const size_t count : {0, 1, 2, 3, 7, 8, 100}) {
    std::set<TrainMemberId> members;
    for (size_t i = 0; i < count; ++i) members.insert(static_cast<TrainMemberId>(3 * i + 2));
    const std::vector<BroadcastRow> rows = broadcast_tree(members);
    ASSERT_EQ(rows.size(), count + 1);
    EXPECT_EQ(rows[0].member, kTrainLeader);
    std::map<TrainMemberId, size_t> depth{{kTrainLeader, 0}};
    for (const BroadcastRow& row : rows) {
      ASSERT_TRUE(depth.contains(row.member)) << "it sends before it has them";
      EXPECT_LE(row.to.size(), 2u);
      for (const TrainMemberId to : row.to) {
        EXPECT_TRUE(depth.emplace(to, depth[row.member] + 1).second) << "twice to " << to;
        EXPECT_EQ(members.erase(to), 1u);
        for (const BroadcastRow& other : rows) EXPECT_TRUE(other.member != to || other.from == row.member);
      }
    }
    EXPECT_TRUE(members.empty());
    EXPECT_LE(depth[rows.back().member], 6u);  // of a hundred
  }
}

TEST(BroadcastTree, TheLeaderItselfNeedsNone) {
  EXPECT_EQ(broadcast_tree({kTrainLeader}).size(), 1u);
  EXPECT_EQ(broadcast_tree({kTrainLeader, 4}).at(0).to, std::vector<TrainMemberId>{4});
}

}  // namespace
}  // namespace butterfly::cluster
