// Pieces that stay together: joined, planned, and apart again.
#include "cluster/cost/tied_pieces.h"

#include <gtest/gtest.h>

#include "cluster/partition/partitioner.h"
#include "cluster/testing/random_problem.h"

namespace butterfly::cluster {
namespace {

PieceList list_of(size_t pieces, std::vector<size_t> tied) {
  PieceList list{.model = "m", .pieces = {}};
  for (size_t i = 0; i < pieces; ++i) {
    Piece& piece = list.pieces.emplace_back();
    piece.name = "block " + std::to_string(i);
    piece.weight_bytes = 1 + i;
    piece.decode.weight_bytes = static_cast<double>(1 + i);
    piece.decode_out_bytes = static_cast<double>(10 + i);
  }
  for (const size_t i : tied) list.pieces[i].tied = true;
  return list;
}

TEST(TiedPieces, AreOnePieceWithAllThatTheyHave) {
  const TiedPieces tied(list_of(6, {3, 4}));
  ASSERT_TRUE(tied.any());
  ASSERT_EQ(tied.joined().pieces.size(), 4u);
  const Piece& one = tied.joined().pieces[2];
  EXPECT_EQ(one.name, "block 2 to block 4");
  EXPECT_EQ(one.weight_bytes, 3u + 4 + 5);
  EXPECT_EQ(one.decode.weight_bytes, 12);
  EXPECT_EQ(one.decode_out_bytes, 14) << "what its last part hands on";
  const Plan plan{{{{0}, 0, 2, {1.0}}, {{1}, 2, 4, {1.0}}}};
  const Plan apart = tied.apart(plan);
  EXPECT_EQ(apart.stages[1].begin, 2u);
  EXPECT_EQ(apart.stages[1].end, 6u);
  std::string why;
  EXPECT_EQ(tied.together(apart, why), plan);
  EXPECT_FALSE(tied.together({{{{0}, 0, 3, {1.0}}, {{1}, 3, 6, {1.0}}}}, why));
  EXPECT_EQ(why, "a stage is cut at piece 3, inside of block 2 to block 4, which must be on one node");
  EXPECT_FALSE(TiedPieces(list_of(6, {})).any());
}

// Random clusters: no strategy cuts where it must not, and the plan is one of the whole list.
TEST(TiedPieces, NoStrategyCutsThem) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const testing::RandomProblemShape shape{.nodes = 4, .pieces = 12};
    PieceList list = testing::random_pieces(shape, seed);
    for (size_t i = 5; i < 10; ++i) list.pieces[i].tied = true;
    const Problem problem(list, testing::random_cluster(shape, seed), {});
    for (const PartitionStrategy& strategy : partition_strategies()) {
      if (strategy.nodes == NodeChoice::kGiven) continue;
      const Result<PlannedChain> planned = make_plan(problem, strategy);
      if (!planned) continue;  // it does not fit by its rule
      size_t next = 0;
      for (const Stage& stage : planned->plan.stages) {
        EXPECT_EQ(stage.begin, next) << strategy.name;
        EXPECT_TRUE(stage.begin <= 4 || stage.begin >= 10) << strategy.name << " cuts at " << stage.begin;
        next = stage.end;
      }
      EXPECT_EQ(next, list.pieces.size());
    }
  }
}

}  // namespace
}  // namespace butterfly::cluster
