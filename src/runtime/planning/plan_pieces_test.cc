// Costs read off the graph against sums by hand, and against what running the model counts.
#include "runtime/planning/plan_pieces.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/testing/temp_dir.h"
#include "runtime/planning/model_shape.h"
#include "runtime/testing/models.h"

namespace butterfly::runtime {
namespace {

using cluster::Piece;
using cluster::PieceList;

PieceList shape_pieces(const char* name, const PlanWorkload& workload) {
  return plan_pieces(shape_file(*find_shape(name), DType::kQ4_0, DType::kQ6_K), workload);
}

// Llama 2 7B: 2 m n k for every product, 4 values x heads x positions for both products of attention.
TEST(PlanPieces, Llama7bByHand) {
  const PlanWorkload workload{.context = 1024, .depth = 99, .prompt = 8, .shares = true};
  const PieceList list = shape_pieces("llama-7b", workload);
  ASSERT_EQ(list.pieces.size(), 34u);
  EXPECT_EQ(list.pieces.front().name, "embedding");
  EXPECT_EQ(list.pieces[1].name, "block 0");
  EXPECT_EQ(list.pieces.back().name, "head");
  const double products = 4.0 * 4096 * 4096 + 3.0 * 4096 * 11008;
  const double attention = 4.0 * 4096 * 100;
  for (size_t i = 1; i <= 32; ++i) {
    const Piece& block = list.pieces[i];
    EXPECT_EQ(block.decode.int8_ops, 2 * products);
    // Norms, turns, activations: some flops for each of dim and ff values.
    EXPECT_GT(block.decode.other_flops, attention);
    EXPECT_LT(block.decode.other_flops, attention + 40 * (4096 + 11008));
    // 18 bytes for 32 values; packed panels may be padded a little. Two norms of floats.
    EXPECT_NEAR(block.decode.weight_bytes, products / 32 * 18, products * 0.01);
    EXPECT_GE(static_cast<double>(block.weight_bytes), products / 32 * 18 + 2 * 4 * 4096);
    EXPECT_EQ(block.kv_bytes, 1024u * 2 * 4096 * 2);
    EXPECT_EQ(block.decode.kv_bytes, 2.0 * 4096 * 2 * (99 + 2));
    EXPECT_EQ(block.decode_out_bytes, 4096.0 * 4);
    EXPECT_EQ(block.prefill_out_bytes, 8 * 4096.0 * 4);
    EXPECT_EQ(block.prefill.int8_ops, 8 * 2 * products);
    EXPECT_GT(block.prefill.other_flops, 4.0 * 4096 * (1 + 2 + 3 + 4 + 5 + 6 + 7 + 8));
    EXPECT_EQ(block.exchanges, 2);
    EXPECT_EQ(block.decode_sum_bytes, 4.0 * 2 * 4096);
    EXPECT_EQ(block.prefill_sum_bytes, 8 * 4.0 * 2 * 4096);
    EXPECT_EQ(block.decode_gather_bytes, 0);
  }
  const Piece& head = list.pieces.back();
  EXPECT_EQ(head.decode.int8_ops, 2.0 * 4096 * 32000);
  EXPECT_EQ(head.prefill.int8_ops, head.decode.int8_ops);  // of the last token only
  EXPECT_EQ(head.decode_out_bytes, 8);
  EXPECT_EQ(head.kv_bytes, 0u);
  EXPECT_EQ(head.exchanges, 0);
  EXPECT_EQ(head.decode_gather_bytes, 40 * 8);
  EXPECT_EQ(list.share_units, 8u);
  const Piece& embedding = list.pieces.front();
  EXPECT_EQ(embedding.decode.int8_ops, 0);
  EXPECT_EQ(embedding.weight_bytes, 32000u * 4096 / 256 * 210);
  EXPECT_EQ(embedding.decode.weight_bytes, 4096.0 / 256 * 210);
}

TEST(PlanPieces, BatchesShareWeightsAndNothingElse) {
  const PieceList one = shape_pieces("llama-8b", {.context = 512, .depth = 100});
  const PieceList eight = shape_pieces("llama-8b", {.context = 512, .depth = 100, .streams = 16, .batch = 8});
  const Piece &a = one.pieces[5], &b = eight.pieces[5];
  EXPECT_EQ(b.decode.weight_bytes, a.decode.weight_bytes);
  EXPECT_EQ(b.decode.int8_ops, 8 * a.decode.int8_ops);
  EXPECT_EQ(b.decode.other_flops, 8 * a.decode.other_flops);
  EXPECT_EQ(b.decode.kv_bytes, 8 * a.decode.kv_bytes);
  EXPECT_EQ(b.kv_bytes, 16 * a.kv_bytes);
  EXPECT_EQ(b.weight_bytes, a.weight_bytes);
  EXPECT_EQ(b.decode_out_bytes, 8 * a.decode_out_bytes);
  EXPECT_THROW(shape_pieces("llama-8b", {.streams = 2, .batch = 3}), Error);
}

TEST(PlanPieces, LongPromptsRunInParts) {
  const PieceList whole = shape_pieces("llama-7b", {.prompt = 600, .rows_max = 600});
  const PieceList parts = shape_pieces("llama-7b", {.prompt = 600, .rows_max = 256});
  EXPECT_EQ(parts.pieces[3].prefill.int8_ops, whole.pieces[3].prefill.int8_ops);
  EXPECT_EQ(parts.pieces[3].prefill.other_flops, whole.pieces[3].prefill.other_flops);
  EXPECT_EQ(parts.pieces[3].prefill.weight_bytes, 3 * whole.pieces[3].prefill.weight_bytes);
}

// Mixtral: 2 of 8 experts for each row, so two rows touch 8 (1 - (6/8)^2) = 3.5 on average.
TEST(PlanPieces, ExpertsByExpectation) {
  const auto weights = [](size_t batch) {
    return shape_pieces("mixtral-8x7b", {.context = 64, .streams = batch, .batch = batch}).pieces[1];
  };
  const double expert = 3.0 * 4096 * 14336 / 32 * 18;
  const double one = weights(1).decode.weight_bytes, two = weights(2).decode.weight_bytes,
               many = weights(64).decode.weight_bytes;
  EXPECT_NEAR((two - one) / expert, 3.5 - 2, 0.02);
  EXPECT_NEAR((many - one) / expert, 8 * (1 - std::pow(0.75, 64)) - 2, 0.08);
  EXPECT_GT(static_cast<double>(weights(1).weight_bytes), 8 * expert);
  EXPECT_EQ(weights(2).decode.int8_ops, 2 * weights(1).decode.int8_ops);
}

TEST(PlanPieces, AddUpToWhatTheModelItselfCounts) {
  for (const char* architecture : {"llama", "gpt2", "qwen3moe", "gemma3"}) {
    testing::RandomModel model(DType::kQ8_0, 1, 7, architecture);
    const LoadedModel& loaded = *model.loaded().model;
    const CachedLayers layers(loaded, model.loaded().pool, {});
    const PieceList list = plan_pieces(loaded.file, {.context = 64, .depth = 10, .prompt = 5});
    cluster::Work decode, prefill;
    uint64_t resident = 0;
    for (const Piece& piece : list.pieces)
      decode += piece.decode, prefill += piece.prefill, resident += piece.weight_bytes;
    // Turns of positions are counted once per piece, and once in the model.
    const auto one = layers.cost(1, 1, 10), five = layers.cost(5, 1, 0);
    EXPECT_NEAR(decode.int8_ops + decode.f32_flops + decode.other_flops, static_cast<double>(one.flops),
                0.02 * one.flops)
        << architecture;
    EXPECT_NEAR(prefill.int8_ops + prefill.f32_flops + prefill.other_flops, static_cast<double>(five.flops),
                0.02 * five.flops);
    EXPECT_EQ(decode.kv_bytes, static_cast<double>(one.kv_bytes)) << architecture;
    EXPECT_NEAR(decode.weight_bytes, static_cast<double>(one.weight_bytes), 1e-6 * one.weight_bytes)
        << architecture;
    EXPECT_GE(resident, loaded.packed_bytes) << architecture;
  }
}

// Members have the embedding whole; of a block's weights nearly nothing but norms.
TEST(PlanPieces, WhatEveryMemberHasWhole) {
  const PieceList list =
      shape_pieces("llama-8b", {.context = 1024, .depth = 99, .prompt = 8, .shares = true});
  const Piece& embedding = list.pieces.front();
  EXPECT_EQ(embedding.whole_bytes, embedding.weight_bytes);
  for (size_t i = 1; i + 1 < list.pieces.size(); ++i) {
    const Piece& block = list.pieces[i];
    EXPECT_LT(block.whole_bytes, block.weight_bytes / 100) << i;  // 8 KV heads: one for each unit
    EXPECT_LT(block.decode_whole.weight_bytes, 0.01 * block.decode.weight_bytes);
    EXPECT_LT(block.decode_whole.int8_ops, 0.01 * block.decode.int8_ops);
  }
  EXPECT_LT(list.pieces.back().whole_bytes, list.pieces.back().weight_bytes / 100);
  EXPECT_EQ(shape_pieces("llama-8b", {.context = 1024}).pieces.front().whole_bytes, 0u);
}

PieceList random_pieces(const model::RandomModelOptions& options) {
  butterfly::testing::TempDir folder;
  const auto path = folder.path() / "model.gguf";
  write_random_model(path, options);
  return plan_pieces(model::open_model(path), {.context = 64, .depth = 10, .prompt = 5, .shares = true});
}

// Recurrent layers are shared with their states: two exchanges, and next to nothing is whole.
TEST(PlanPieces, RecurrentLayersAreShared) {
  model::RandomModelOptions options = testing::small_options("qwen35", DType::kQ8_0);
  options.head_length = 64;  // eight shards
  options.head_count_kv = 8;
  const PieceList list = random_pieces(options);
  for (size_t i = 1; i <= 3; ++i) {
    const Piece& block = list.pieces[i];
    EXPECT_EQ(block.exchanges, 2) << i;
    EXPECT_EQ(block.decode_sum_bytes, 4.0 * 2 * 256) << i;
    EXPECT_LT(block.whole_bytes, block.memory_bytes() / 50) << i;
    EXPECT_LT(block.decode_whole.int8_ops, 0.02 * block.decode.int8_ops) << i;
    EXPECT_LT(block.decode_whole.kv_bytes, 0.02 * block.decode.kv_bytes) << i;
  }
}

// One shard cannot be shared: everybody has the layer, with its state.
TEST(PlanPieces, RecurrentLayersOfOneShardAreWholeEverywhere) {
  model::RandomModelOptions options = testing::small_options("qwen35", DType::kQ8_0);
  options.head_count = 4;
  options.head_length = 16;
  const PieceList list = random_pieces(options);
  for (size_t i = 1; i <= 3; ++i) {
    const Piece& block = list.pieces[i];
    EXPECT_EQ(block.exchanges, 1) << i;
    EXPECT_GT(block.whole_bytes, block.kv_bytes) << i;
    EXPECT_GT(block.decode_whole.int8_ops, 0.1 * block.decode.int8_ops) << i;
  }
}

TEST(PlanPieces, EveryNamedShapeIsDescribedWithoutItsValues) {
  for (const NamedShape& shape : named_shapes()) {
    const PieceList list =
        plan_pieces(shape_file(shape, DType::kF16, DType::kF16), {.context = 256, .prompt = 16});
    EXPECT_EQ(list.pieces.size(), shape.options().block_count + 2) << shape.name;
    EXPECT_EQ(list.model, shape.name);
  }
  EXPECT_EQ(find_shape("gpt5"), nullptr);
}

}  // namespace
}  // namespace butterfly::runtime
