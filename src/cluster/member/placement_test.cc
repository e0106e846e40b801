// What a placement must be: every piece once, every unit of every kind once, every node once.
#include "cluster/member/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/testing/member_samples.h"

namespace butterfly::cluster {
namespace {

using ::testing::HasSubstr;
using testing::node_id;

Share share_of(ShareRange heads, ShareRange columns = {}) {
  Share share;
  share.of(ShareKind::kHeads) = heads;
  share.of(ShareKind::kColumns) = columns;
  return share;
}

TEST(Share, OneWithEverythingIsTheDefault) {
  const Share all;
  EXPECT_TRUE(all.whole());
  EXPECT_EQ(why_not_covered(std::vector{all}), "");
  EXPECT_EQ(to_string(all), "everything");
  EXPECT_FALSE(share_of({0, 4, 8}).whole());
  EXPECT_EQ(to_string(share_of({0, 4, 8}, {2, 8, 8})), "heads 0-4 of 8, columns 2-8 of 8");
}

TEST(Share, UnequalAndEmptyPartsInAnyOrderCoverEverything) {
  // The last one attends and has no columns; kinds that are not split are the first one's.
  Share first = share_of({6, 8, 8}, {0, 5, 8}), second = share_of({0, 1, 8}, {5, 8, 8}),
        third = share_of({1, 6, 8}, {8, 8, 8});
  for (const ShareKind kind : {ShareKind::kExperts, ShareKind::kVocabulary})
    second.of(kind) = third.of(kind) = {1, 1, 1};
  EXPECT_EQ(why_not_covered(std::vector{first, second, third}), "");
}

TEST(Share, GapsAndOverlapsHaveNames) {
  const auto why = [](std::vector<ShareRange> heads) {
    std::vector<Share> shares;
    for (const ShareRange& range : heads) {
      shares.push_back(share_of(range));
      if (shares.size() > 1)
        for (const ShareKind kind : {ShareKind::kColumns, ShareKind::kExperts, ShareKind::kVocabulary})
          shares.back().of(kind) = {1, 1, 1};
    }
    return why_not_covered(shares);
  };
  EXPECT_EQ(why({{0, 4, 8}, {4, 8, 8}}), "");
  EXPECT_THAT(why({{0, 4, 8}, {5, 8, 8}}), HasSubstr("heads 4: nobody"));
  EXPECT_THAT(why({{0, 4, 8}, {3, 8, 8}}), HasSubstr("heads 3: more than one"));
  EXPECT_THAT(why({{0, 4, 8}, {4, 7, 8}}), HasSubstr("heads 7: nobody"));
  EXPECT_THAT(why({{0, 4, 8}, {4, 9, 9}}), HasSubstr("8 units for one member and 9"));
  EXPECT_THAT(why({{4, 2, 8}}), HasSubstr("heads 4 to 2 of 8"));
  EXPECT_THAT(why({{0, 9, 8}}), HasSubstr("heads 0 to 9 of 8"));
  EXPECT_THAT(why({{0, 0, 0}}), HasSubstr("of 0"));
  EXPECT_THAT(why({{0, UINT32_MAX, UINT32_MAX}}), HasSubstr("heads"));
  EXPECT_THAT(why_not_covered({}), HasSubstr("nobody"));
  // Both with everything of the other kinds.
  EXPECT_THAT(why_not_covered(std::vector{share_of({0, 4, 8}), share_of({4, 8, 8})}),
              HasSubstr("columns 0: more than one"));
}

// Node 1 alone, then nodes 2 and 3 together, then the coordinator's.
Placement shared_placement() {
  Placement placement;
  placement.pieces = 9;
  placement.stages.resize(3);
  Share half = share_of({0, 4, 8}, {0, 4, 8}), other = share_of({4, 8, 8}, {4, 8, 8});
  other.of(ShareKind::kExperts) = other.of(ShareKind::kVocabulary) = {1, 1, 1};
  placement.stages[0] = {.members = {{.node = node_id(1)}}, .begin = 0, .end = 4};
  placement.stages[1] = {
      .members = {{.node = node_id(2), .share = half}, {.node = node_id(3), .share = other}},
      .begin = 4,
      .end = 8};
  placement.stages[2] = {.members = {{.node = node_id(0)}}, .begin = 8, .end = 9};
  return placement;
}

TEST(Placement, StagesMayHaveMembers) {
  const Placement placement = shared_placement();
  EXPECT_EQ(why_not_whole(placement), "");
  EXPECT_EQ(placement.nodes(), (std::vector{node_id(1), node_id(2), node_id(3), node_id(0)}));
  EXPECT_EQ(placement.find(node_id(3)), &placement.stages[1]);
  EXPECT_EQ(placement.find_member(node_id(3)), &placement.stages[1].members[1]);
  EXPECT_EQ(placement.find(node_id(4)), nullptr);

  Placement other = placement;
  EXPECT_TRUE(other.same_work(placement));
  std::swap(other.stages[1].members[0].share, other.stages[1].members[1].share);
  EXPECT_EQ(why_not_whole(other), "");
  EXPECT_FALSE(other.same_work(placement)) << "the same nodes with other shares";
}

TEST(Placement, WhatIsNotWholeIsSaidInWords) {
  Placement twice = shared_placement();
  twice.stages[2].members = {{.node = node_id(3)}};
  EXPECT_THAT(why_not_whole(twice), HasSubstr("node-3 has two parts"));
  Placement same = shared_placement();
  same.stages[1].members[1].node = node_id(2);
  EXPECT_THAT(why_not_whole(same), HasSubstr("node-2 has two parts"));
  Placement nobody = shared_placement();
  nobody.stages[1].members.clear();
  EXPECT_THAT(why_not_whole(nobody), HasSubstr("pieces 4 to 8: nobody has a share"));
  Placement half = shared_placement();
  half.stages[1].members.pop_back();
  EXPECT_THAT(why_not_whole(half), HasSubstr("heads 4: nobody"));
  Placement gap = shared_placement();
  gap.stages[1].begin = 5;
  EXPECT_THAT(why_not_whole(gap), HasSubstr("expected to begin at 4"));
}

// Only neighbours may complain about each other.
TEST(Placement, MembersOfAStageAndFirstOnesOfTheNextAreNeighbours) {
  const Placement placement = shared_placement();
  const auto talk = [&](int a, int b) {
    return are_neighbours(placement, node_id(0), node_id(a), node_id(b));
  };
  EXPECT_TRUE(talk(1, 2));
  EXPECT_TRUE(talk(2, 1));
  EXPECT_TRUE(talk(2, 3)) << "of one stage";
  EXPECT_TRUE(talk(3, 2));
  EXPECT_TRUE(talk(2, 0));
  EXPECT_FALSE(talk(1, 3)) << "the way into a stage is its first member's";
  EXPECT_FALSE(talk(3, 1));
  EXPECT_FALSE(talk(3, 3));
  EXPECT_FALSE(talk(4, 1)) << "no part of the plan";
  EXPECT_TRUE(talk(0, 3)) << "the coordinator sees everybody";
  EXPECT_TRUE(are_neighbours(placement, node_id(0), node_id(3), {}));
}

TEST(Placement, StepsGoRoundAndMembersTalkBothWays) {
  const Placement placement = shared_placement();
  const auto ways = [&](int a, int b) { return ways_between(placement, node_id(a), node_id(b)); };
  using Ways = std::vector<std::pair<NodeId, NodeId>>;
  EXPECT_EQ(ways(1, 2), Ways({{node_id(1), node_id(2)}}));
  EXPECT_EQ(ways(2, 1), Ways({{node_id(1), node_id(2)}})) << "whoever says it";
  EXPECT_EQ(ways(2, 3), Ways({{node_id(2), node_id(3)}, {node_id(3), node_id(2)}}));
  EXPECT_EQ(ways(1, 4), Ways({{node_id(1), node_id(4)}})) << "no part of the plan";
}

}  // namespace
}  // namespace butterfly::cluster
