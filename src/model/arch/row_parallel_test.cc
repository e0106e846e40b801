// Which layers are summed by logical shards: it is part of the numerics, for every architecture alike.
#include <gtest/gtest.h>

#include "base/testing/temp_dir.h"
#include "base/thread_pool.h"
#include "model/arch/decoder.h"
#include "model/synthetic/random_model.h"

namespace butterfly::model {
namespace {

TEST(RowParallel, AttentionOutputAndFeedForwardDownOfEveryArchitectureAndNoOther) {
  butterfly::testing::TempDir folder;
  ThreadPool pool(1);
  for (const RandomArchitecture& row : random_architectures()) {
    RandomModelOptions options;
    options.architecture = row.name;
    options.vocabulary_size = 320;
    options.embedding_length = 64;
    options.feed_forward_length = 128;
    options.block_count = 2;
    const auto path = folder.path() / "model.gguf";
    write_random_model(path, options);
    const ModelFile file = open_model(path);
    const ModelConfig config = read_config(file);
    WeightLoader weights(file, pool);
    const auto network = architecture_of(file).load(config, weights, {0, config.layers});
    const auto& decoder = dynamic_cast<const Decoder&>(*network);
    ASSERT_EQ(decoder.blocks.size(), 2u) << row.name;
    EXPECT_FALSE(decoder.head.row_parallel) << row.name;
    for (const nn::TransformerBlock& block : decoder.blocks) {
      const nn::Linear& out = block.mixer_out();
      if (!block.mixer_name().empty()) {
        EXPECT_TRUE(out.row_parallel) << row.name;
        EXPECT_GT(out.shard_unit(), 0u) << row.name;
      }
      for (const nn::Linear* layer : {&block.attention.q, &block.attention.k, &block.attention.v})
        EXPECT_FALSE(layer->row_parallel) << row.name;
      if (block.mlp_name().empty()) continue;
      const auto* moe = std::get_if<nn::Moe>(&block.mlp);  // its experts: nn/moe_test.cc
      const nn::Mlp* mlp = moe == nullptr ? &std::get<nn::Mlp>(block.mlp)
                           : moe->shared  ? &*moe->shared
                                          : nullptr;
      if (mlp == nullptr) continue;
      EXPECT_TRUE(mlp->down.row_parallel) << row.name;
      EXPECT_FALSE(mlp->up.row_parallel || mlp->gate.row_parallel) << row.name;
    }
  }
}

}  // namespace
}  // namespace butterfly::model
