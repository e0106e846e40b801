#include "model/arch/layer_range.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/temp_dir.h"
#include "model/synthetic/random_model.h"

namespace butterfly::model {
namespace {

TEST(LayerRange, PiecesOfAChainBecomeRanges) {
  constexpr size_t kLayers = 4;
  EXPECT_EQ(to_string(range_of_pieces(0, 6, kLayers), kLayers), "embedding, blocks 0 to 3, head");
  EXPECT_EQ(to_string(range_of_pieces(0, 1, kLayers), kLayers), "embedding");
  EXPECT_EQ(to_string(range_of_pieces(1, 2, kLayers), kLayers), "block 0");
  EXPECT_EQ(to_string(range_of_pieces(1, 5, kLayers), kLayers), "blocks 0 to 3");
  EXPECT_EQ(to_string(range_of_pieces(2, 4, kLayers), kLayers), "blocks 1 to 2");
  EXPECT_EQ(to_string(range_of_pieces(4, 6, kLayers), kLayers), "block 3, head");
  EXPECT_EQ(to_string(range_of_pieces(5, 6, kLayers), kLayers), "head");
}

TEST(LayerRange, RefusesWhatTheModelDoesNotHave) {
  EXPECT_NO_THROW(check_range({0, 4}, 4));
  EXPECT_NO_THROW(check_range({0, 0}, 4));
  EXPECT_NO_THROW(check_range({4, 4}, 4));
  EXPECT_THROW(check_range({0, 5}, 4), Error);
  EXPECT_THROW(check_range({3, 2}, 4), Error);
  EXPECT_THROW(check_range({2, 2}, 4), Error);
  EXPECT_THROW(check_range({0, 0, true, false}, 4), Error);
}

// However the pieces are cut, every tensor is in exactly one range; a tied matrix is in those of both ends.
TEST(LayerRange, CutsShareTheTensorsOut) {
  butterfly::testing::TempDir folder;
  for (const RandomArchitecture& row : random_architectures())
    for (const bool tied : {false, true}) {
      RandomModelOptions options;
      options.architecture = row.name;
      options.vocabulary_size = 320;
      options.embedding_length = 64;
      options.feed_forward_length = 64;
      options.block_count = 12;  // block 1 is not block 11
      options.tied = tied;
      const auto path = folder.path() / "model.gguf";
      write_random_model(path, options);
      const ModelFile file = open_model(path);
      for (size_t cut = 1; cut < 13; ++cut) {
        const LayerRange front = range_of_pieces(0, cut, 12), back = range_of_pieces(cut, 14, 12);
        for (const NamedTensor& tensor : file.tensors()) {
          const bool shared = tensor.name.starts_with("rope_f") ||
                              (tensor.name == "token_embd.weight" && !file.has("output.weight"));
          EXPECT_EQ(range_needs(front, 12, file, tensor.name) + range_needs(back, 12, file, tensor.name),
                    shared ? 2 : 1)
              << row.name << " cut " << cut << ": " << tensor.name;
        }
        EXPECT_EQ(tensors_of_range(range_of_pieces(0, 14, 12), 12, file).size(), file.tensors().size());
      }
    }
}

TEST(LayerRange, CutsLeaveLayersWithTheKeysTheyRead) {
  std::vector<LayerState> states(5, {.kind = StateKind::kFull, .kv_heads = 1, .head_dim = 8});
  states[3].kind = StateKind::kShared;
  states[3].source = 1;
  const bool allowed[] = {true, true, false, false, true, true};
  for (size_t block = 0; block <= 5; ++block) EXPECT_EQ(may_cut(block, states), allowed[block]) << block;
  EXPECT_NO_THROW(check_sources({1, 5}, states));
  EXPECT_NO_THROW(check_sources({4, 5}, states));
  EXPECT_THROW(check_sources({2, 5}, states), Error);
}

}  // namespace
}  // namespace butterfly::model
