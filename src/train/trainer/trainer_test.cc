// Tiny networks learn, and their weights do not depend on workers, threads or how the memory is used.
#include "train/trainer/trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/rng.h"
#include "base/testing/temp_dir.h"
#include "train/data/batch.h"
#include "train/networks/transformer.h"

namespace butterfly::train {
namespace {

constexpr size_t kLength = 16;
constexpr int32_t kVocabulary = 48;

model::RandomModelOptions tiny(const std::string& architecture) {
  model::RandomModelOptions sizes;
  sizes.architecture = architecture;
  sizes.vocabulary_size = kVocabulary;
  sizes.context_length = 32;
  sizes.embedding_length = 32;
  sizes.block_count = 2;
  sizes.feed_forward_length = 64;
  sizes.head_count = 4;
  sizes.head_count_kv = architecture == "gpt2" ? 4 : 2;
  sizes.tied = architecture == "gpt2";
  return sizes;
}

// Sequences in which the next token is a fixed function of the last two: can be learnt, but not from one
// token.
struct Tokens {
  std::vector<int32_t> tokens, targets;
  Tokens(size_t items, uint64_t seed) {
    for (size_t i = 0; i < items; ++i) {
      auto a = static_cast<int32_t>(random_u64(seed, i, 0) % 7),
           b = static_cast<int32_t>(random_u64(seed, i, 1) % 7);
      for (size_t t = 0; t < kLength; ++t) {
        const int32_t next = (3 * a + 5 * b + 1) % kVocabulary;
        tokens.push_back(b);
        targets.push_back(next);
        a = b;
        b = next;
      }
    }
  }
  // Cut into micro-batches of these numbers of items.
  std::vector<MicroBatch> cut(const std::vector<size_t>& items) const {
    std::vector<MicroBatch> batches;
    size_t at = 0;
    for (const size_t count : items) {
      batches.push_back({.tokens = std::span(tokens).subspan(at, count * kLength),
                         .pixels = {},
                         .targets = std::span(targets).subspan(at, count * kLength)});
      at += count * kLength;
    }
    return batches;
  }
};

std::vector<std::byte> weights_of(const Transformer& network) {
  std::vector<std::byte> bytes;
  for (const auto& [name, tensor] : network.weights())
    bytes.insert(bytes.end(), tensor.raw(), tensor.raw() + tensor.bytes());
  return bytes;
}

// The loss of a document is the same alone in its window and behind others.
TEST(Trainer, PackedDocumentsDoNotSeeEachOther) {
  for (const char* architecture : {"gpt2", "llama"}) {
    Transformer network(untrained_model(tiny(architecture), {}, 0.5f), {.length = kLength});
    Trainer trainer(network, {.threads_per_worker = 1});
    const Tokens data(1, 1);
    const auto loss = [&](size_t place, bool marked) {  // of seven tokens there, among others
      std::vector<int32_t> tokens(kLength, 5), targets(kLength, -1);
      for (size_t i = 0; i < 7; ++i) {
        tokens[place + i] = i == 0 && marked ? document_start(data.tokens[i]) : data.tokens[i];
        targets[place + i] = data.targets[i];
      }
      const MicroBatch batch{.tokens = tokens, .pixels = {}, .targets = targets};
      return trainer.evaluate({&batch, 1}).loss;
    };
    const double alone = loss(0, true);
    EXPECT_EQ(loss(0, false), alone) << architecture;
    EXPECT_NEAR(loss(4, true), alone, 1e-6 * alone) << architecture;
    EXPECT_GT(std::abs(loss(4, false) - alone), 1e-3 * alone) << architecture;
  }
}

// Micro-batches of texts that end early are run up to their last target: nothing but the time depends on it.
TEST(Trainer, WhatNothingIsLearnedFromIsNotComputed) {
  constexpr size_t kLong = 100;
  for (const char* architecture : {"gpt2", "llama"}) {
    std::vector<std::vector<std::byte>> weights;
    std::vector<double> losses;
    for (const bool shorten : {false, true}) {
      model::RandomModelOptions sizes = tiny(architecture);
      sizes.context_length = kLong;
      Transformer network(untrained_model(sizes, {}, 0.5f), {.length = kLong});
      Trainer trainer(network, {.workers = 2, .threads_per_worker = 1, .shorten = shorten});
      std::vector<std::vector<int32_t>> tokens, targets;
      std::vector<MicroBatch> batches;
      for (const size_t used : {7, 40, 64, 100}) {  // of the longer of two texts
        tokens.emplace_back(2 * kLong, 1);
        targets.emplace_back(2 * kLong, -1);
        for (size_t i = 0; i < used; ++i) {
          tokens.back()[i] = static_cast<int32_t>(2 + (i * 7 + used) % 9);
          targets.back()[i] = static_cast<int32_t>(2 + (i * 5 + used) % 9);
        }
        targets.back()[kLong + used / 2] = 3;
      }
      for (size_t i = 0; i < tokens.size(); ++i)
        batches.push_back({.tokens = tokens[i], .pixels = {}, .targets = targets[i]});
      for (int step = 0; step < 3; ++step) losses.push_back(trainer.step(batches).loss);
      losses.push_back(trainer.evaluate(batches).loss);
      weights.push_back(weights_of(network));
    }
    EXPECT_EQ(weights[0], weights[1]) << architecture;
    // What is shown is a sum over fewer rows.
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(losses[i], losses[4 + i], 1e-6 * losses[i]) << architecture;
  }
}

TEST(Trainer, TinyTransformersLearnABatchByHeart) {
  for (const char* architecture : {"gpt2", "llama"}) {
    Transformer network(untrained_model(tiny(architecture), {}), {.length = kLength});
    Trainer trainer(
        network,
        {.optimizer = {.weight_decay = 0.01}, .schedule = {.lr = 1e-2, .warmup_steps = 5}, .clip_norm = 1});
    const Tokens data(8, 1);
    const auto batches = data.cut({8});
    const double first = trainer.step(batches).loss;
    EXPECT_NEAR(first, std::log(kVocabulary), 0.3) << architecture;  // knows nothing yet
    StepReport last;
    for (int i = 0; i < 120; ++i) last = trainer.step(batches);
    EXPECT_LT(last.loss, 0.1) << architecture;
    const StepReport learnt = trainer.evaluate(batches);
    EXPECT_GT(learnt.correct, learnt.targets * 95 / 100) << architecture;
    EXPECT_LT(learnt.loss, 0.1) << architecture;
  }
}

std::vector<std::byte> train(const TrainerOptions& options, const std::vector<size_t>& cuts, float dropout) {
  Transformer network(untrained_model(tiny("llama"), {}), {.length = kLength, .dropout = dropout});
  Trainer trainer(network, options);
  for (uint64_t step = 0; step < 4; ++step) {
    const Tokens data(14, 10 + step);
    trainer.step(data.cut(cuts));
  }
  return weights_of(network);
}

TEST(Trainer, WeightsDoNotDependOnWorkersAndThreads) {
  for (const std::vector<size_t>& cuts :
       {std::vector<size_t>{2, 2, 2, 2, 2, 2, 2}, std::vector<size_t>{3, 1, 5, 5}}) {
    TrainerOptions options{.schedule = {.lr = 1e-3}, .clip_norm = 0.5};
    options.workers = 1;
    options.threads_per_worker = 1;
    const auto one = train(options, cuts, 0.1f);
    for (const auto& [workers, threads] :
         {std::pair{1, 2}, {2, 1}, {4, 1}, {2, 2}, {3, 1}, {16, 1}, {64, 1}}) {
      options.workers = static_cast<size_t>(workers);
      options.threads_per_worker = static_cast<size_t>(threads);
      EXPECT_EQ(train(options, cuts, 0.1f), one) << workers << " workers, " << threads << " threads";
    }
  }
}

TEST(Trainer, UpdatesInTheBackwardPassGiveTheSameWeights) {
  for (const OptimizerRow& row : optimizer_table()) {
    TrainerOptions options{.optimizer = {.name = std::string(row.name), .momentum = 0.9, .weight_decay = 0.1},
                           .schedule = {.lr = 1e-3}};
    const auto apart = train(options, {14}, 0);
    options.update_in_backward = true;
    EXPECT_EQ(train(options, {14}, 0), apart) << row.name;
  }
  TrainerOptions wrong{.clip_norm = 1, .update_in_backward = true};
  EXPECT_THROW(train(wrong, {14}, 0), Error);
}

TEST(Trainer, ComputingAgainGivesTheSameWeightsInLessMemory) {
  model::RandomModelOptions sizes = tiny("llama");
  sizes.block_count = 8;
  std::vector<std::vector<std::byte>> weights;
  std::vector<size_t> bytes;
  for (const bool again : {false, true}) {
    Transformer network(untrained_model(sizes, {}), {.length = kLength, .dropout = 0.1f});
    TrainerOptions options{.schedule = {.lr = 1e-3}};
    options.recompute = again;
    Trainer trainer(network, options);
    const Tokens data(8, 1);
    for (int i = 0; i < 2; ++i) trainer.step(data.cut({8}));
    weights.push_back(weights_of(network));
    bytes.push_back(trainer.memory().activations);
  }
  EXPECT_EQ(weights[1], weights[0]);
  EXPECT_LT(bytes[1], bytes[0] * 2 / 3);
}

TEST(Trainer, LearnsWithHalfTheMemoryForMoments) {
  Transformer network(untrained_model(tiny("llama"), {}), {.length = kLength});
  Trainer trainer(
      network,
      {.optimizer = {.bf16_moments = true}, .schedule = {.lr = 1e-2, .warmup_steps = 5}, .clip_norm = 1});
  EXPECT_EQ(trainer.memory().optimizer, trainer.layout().total() * 4);
  const Tokens data(8, 1);
  StepReport last;
  for (int i = 0; i < 100; ++i) last = trainer.step(data.cut({8}));
  EXPECT_LT(last.loss, 0.2);
}

// Steps of several trainers that share leaves and owners of shards, by hand: what machines do over links.
std::vector<std::byte> train_shared(const TrainerOptions& options, const std::vector<size_t>& cuts,
                                    const std::vector<size_t>& leaf_cuts,
                                    const std::vector<size_t>& shard_cuts, float dropout) {
  struct Node {
    Transformer network;
    Trainer trainer;
    Node(const TrainerOptions& options, float dropout)
        : network(untrained_model(tiny("llama"), {}), {.length = kLength, .dropout = dropout}),
          trainer(network, options) {}
  };
  const size_t count = leaf_cuts.size();
  std::vector<std::unique_ptr<Node>> nodes;
  for (size_t i = 0; i < count; ++i) nodes.push_back(std::make_unique<Node>(options, dropout));
  const ParameterLayout& layout = nodes[0]->trainer.layout();
  ThreadPool pool(1);
  for (uint64_t step = 0; step < 4; ++step) {
    const Tokens data(14, 10 + step);
    const std::vector<MicroBatch> batches = data.cut(cuts);
    const StepShape shape = step_shape(batches);
    std::vector<LeafSums> sums;
    for (size_t i = 0, first = 0; i < count; first = leaf_cuts[i++])
      sums.push_back(
          nodes[i]->trainer.leaves(shape, first, std::span(batches).subspan(first, leaf_cuts[i] - first)));
    // Owners finish the tree of their shard, from what came last to what came first.
    std::vector<float> squares;
    std::vector<Shard> shards;
    std::vector<GradientSum> totals;
    for (size_t i = 0, begin = 0; i < count; begin = shard_cuts[i++]) {
      shards.push_back({begin, std::min(shard_cuts[i], layout.blocks().size())});
      GradientTree tree(layout.shard_floats(shards[i]));
      tree.begin(batches.size());
      for (size_t from = count; from-- > 0;)
        for (const auto& [node, sum, code] : sums[from].subtrees) {
          GradientSum part = tree.take();  // as it would be received
          std::memcpy(part.values, sum.values + layout.shard_offset(shards[i]),
                      tree.floats() * sizeof(float));
          tree.finish(node, std::move(part), pool);
        }
      totals.push_back(tree.result());
      const std::vector<float> own = nodes[i]->trainer.squares(shards[i], totals[i].values);
      squares.insert(squares.end(), own.begin(), own.end());
    }
    for (size_t i = 0; i < count; ++i) {
      nodes[i]->trainer.update(shards[i], totals[i].values, nodes[i]->trainer.norm(squares), batches.size());
      nodes[i]->trainer.set_step_count(step + 1);
      for (const NormBlock& run : layout.runs(shards[i]))
        for (size_t to = 0; to < count; ++to)
          if (to != i)
            std::memcpy(nodes[to]->trainer.layout().parameter(run.parameter).value.data<float>() + run.first,
                        nodes[i]->trainer.layout().parameter(run.parameter).value.data<float>() + run.first,
                        run.count * sizeof(float));
    }
  }
  for (size_t i = 1; i < count; ++i) EXPECT_EQ(weights_of(nodes[i]->network), weights_of(nodes[0]->network));
  return weights_of(nodes[0]->network);
}

TEST(Trainer, StepsThatAreSharedGiveTheSameWeights) {
  const std::vector<size_t> cuts{2, 3, 1, 2, 1, 2, 3};
  for (const OptimizerRow& row : optimizer_table())
    for (const bool bf16 : {false, true}) {
      if (bf16 && row.name == "sgd") continue;
      const TrainerOptions options{.optimizer = {.name = std::string(row.name),
                                                 .momentum = 0.9,
                                                 .weight_decay = 0.1,
                                                 .bf16_moments = bf16},
                                   .schedule = {.lr = 1e-3},
                                   .clip_norm = 0.5,
                                   .threads_per_worker = 1};
      const auto one = train(options, cuts, 0.1f);
      EXPECT_EQ(train_shared(options, cuts, {7}, {1000}, 0.1f), one) << row.name;
      EXPECT_EQ(train_shared(options, cuts, {3, 7}, {5, 1000}, 0.1f), one) << row.name;
      EXPECT_EQ(train_shared(options, cuts, {1, 1, 6, 7}, {0, 12, 13, 1000}, 0.1f), one) << row.name;
    }
}

// Sums that leave in buckets have the bits of those that leave whole, and most of them leave while the
// backward pass of the last micro-batch goes on.
TEST(Trainer, BucketsOfSumsLeaveDuringTheBackwardPass) {
  uint64_t seed = 3;
  for (const WireMode mode : {WireMode::kExact, WireMode::kBf16, WireMode::kInt8, WireMode::kLocalSteps})
    for (const bool recompute : {false, true})
      for (const size_t workers : {1, 2})
        for (const size_t blocks_in_bucket : {1, 3, 1000}) {
          // Other data each time: memory that was given back may hold the sums of before.
          const Tokens data(14, seed++);
          const std::vector<MicroBatch> batches = data.cut({2, 1, 2, 3, 1, 2, 3});
          const StepShape shape = step_shape(batches);
          const TrainerOptions options{.schedule = {.lr = 1e-3},
                                       .workers = workers,
                                       .threads_per_worker = 1,
                                       .recompute = recompute,
                                       .wire = mode,
                                       .slots = 4};
          Transformer network(untrained_model(tiny("llama"), {}), {.length = kLength, .dropout = 0.1f});
          Trainer whole(network, options), parts(network, options);
          const ParameterLayout& layout = whole.layout();
          std::vector<Shard> buckets;
          for (size_t at = 0; at < layout.blocks().size(); at = buckets.back().end)
            buckets.push_back({at, std::min(at + blocks_in_bucket, layout.blocks().size())});
          for (const LeafRange here : {LeafRange{0, 7}, LeafRange{2, 7}}) {
            const auto own = std::span(batches).subspan(here.begin, here.size());
            const LeafSums expected = whole.leaves(shape, here.begin, own);
            std::map<PairNode, LeafSubtree> came;
            std::map<PairNode, std::vector<size_t>> order;
            std::map<PairNode, std::vector<float>> early;  // all of it, when its first bucket came
            const LeafStream stream(layout, buckets, [&](const LeafSubtree& subtree, size_t bucket) {
              came.insert_or_assign(subtree.node, subtree);
              if (order[subtree.node].empty())
                early[subtree.node].assign(subtree.sum.values, subtree.sum.values + layout.total());
              order[subtree.node].push_back(bucket);
            });
            const LeafSums streamed = parts.leaves(shape, here.begin, own, &stream);
            EXPECT_TRUE(streamed.subtrees.empty());
            ASSERT_EQ(came.size(), expected.subtrees.size());
            for (const LeafSubtree& subtree : expected.subtrees) {
              ASSERT_TRUE(came.contains(subtree.node));
              const LeafSubtree& got = came.at(subtree.node);
              const size_t bytes = layout.total() * sizeof(float);
              EXPECT_EQ(std::memcmp(got.sum.values, subtree.sum.values, bytes), 0);
              EXPECT_EQ(got.code == nullptr, mode == WireMode::kExact);
              if (got.code != nullptr) {
                EXPECT_EQ(std::memcmp(got.code->data(), subtree.code->data(), got.code->size()), 0);
              }
              // Each once; and while others were not there yet.
              std::vector<size_t> sorted = order.at(subtree.node);
              std::ranges::sort(sorted);
              ASSERT_EQ(sorted.size(), buckets.size());
              for (size_t i = 0; i < sorted.size(); ++i) EXPECT_EQ(sorted[i], i);
              const bool all_there = std::memcmp(early.at(subtree.node).data(), got.sum.values, bytes) == 0;
              // Of the second range memory may have the same sums of the first one.
              if (workers == 1 && mode != WireMode::kLocalSteps && buckets.size() > 1 && here.begin == 0) {
                EXPECT_FALSE(all_there);
              }
            }
            ASSERT_EQ(streamed.reports.size(), expected.reports.size());
            for (size_t i = 0; i < expected.reports.size(); ++i)
              EXPECT_EQ(streamed.reports[i].loss, expected.reports[i].loss);
            const auto left = whole.residuals(0, 4), left_too = parts.residuals(0, 4);
            for (size_t i = 0; i < left.size(); ++i)
              EXPECT_TRUE(std::ranges::equal(left[i].bytes, left_too[i].bytes));
          }
        }
}

TEST(Trainer, GradientsThatAreNotFiniteChangeNothing) {
  Transformer network(untrained_model(tiny("llama"), {}), {.length = kLength});
  Trainer trainer(network, {.schedule = {.lr = 1e-3}});
  network.weights().at("output_norm.weight").data<float>()[3] = 1e38f;
  const auto before = weights_of(network);
  const Tokens data(2, 1);
  EXPECT_THROW(trainer.step(data.cut({1, 1})), Error);
  EXPECT_EQ(weights_of(network), before);
  EXPECT_EQ(trainer.step_count(), 0u);
}

// A micro-batch that fails leaves nothing behind: neither sums of its neighbours nor a change.
TEST(Trainer, TheStepAfterOneThatFailedIsAsIfThatHadNotBeen) {
  const Tokens data(4, 1);
  const auto after = [&](bool fails, size_t workers) {
    Transformer network(untrained_model(tiny("llama"), {}), {.length = kLength});
    Trainer trainer(network, {.schedule = {.lr = 1e-2}, .workers = workers, .threads_per_worker = 1});
    std::vector<MicroBatch> wrong = data.cut({1, 1, 1, 1});
    wrong[2].targets = wrong[2].targets.subspan(3);
    for (int i = 0; i < (fails ? 3 : 0); ++i) EXPECT_THROW(trainer.step(wrong), Error);
    trainer.step(data.cut({1, 1, 1, 1}));
    return weights_of(network);
  };
  for (const size_t workers : {1, 3}) EXPECT_EQ(after(true, workers), after(false, workers)) << workers;
}

// Targets count the same in micro-batches of unequal size.
TEST(Trainer, MicroBatchesAddUpToTheWholeBatch) {
  const Tokens data(6, 3);
  const auto after = [&](const std::vector<size_t>& cuts) {
    Transformer network(untrained_model(tiny("gpt2"), {}), {.length = kLength});
    Trainer trainer(network, {.optimizer = {.name = "sgd"}, .schedule = {.lr = 0.1}});
    const double norm = trainer.step(data.cut(cuts)).grad_norm;
    const double loss = trainer.evaluate(data.cut({6})).loss;
    return std::pair{norm, loss};
  };
  const auto [norm, loss] = after({6});
  const auto [norm_cut, loss_cut] = after({1, 3, 2});
  EXPECT_NEAR(norm_cut, norm, 1e-5 * norm);
  EXPECT_NEAR(loss_cut, loss, 1e-6);
}

TEST(Trainer, GoesOnFromItsState) {
  const Tokens data(4, 5);
  const auto batches = data.cut({2, 2});
  const TrainerOptions options{.schedule = {.kind = ScheduleKind::kCosine, .lr = 1e-3, .total_steps = 6}};
  Transformer network(untrained_model(tiny("llama"), {}), {.length = kLength, .dropout = 0.2f});
  Trainer trainer(network, options);
  for (int i = 0; i < 3; ++i) trainer.step(batches);
  std::map<std::string, std::vector<std::byte>> saved;
  for (const StateArray& array : trainer.state())
    saved[array.name] = {array.bytes.begin(), array.bytes.end()};
  for (int i = 0; i < 3; ++i) trainer.step(batches);

  Transformer other(untrained_model(tiny("llama"), {}), {.length = kLength, .dropout = 0.2f});
  Trainer resumed(other, options);
  for (const StateArray& array : resumed.state())
    std::copy(saved.at(array.name).begin(), saved.at(array.name).end(), array.bytes.begin());
  resumed.set_step_count(3);
  for (int i = 0; i < 3; ++i) resumed.step(batches);
  EXPECT_EQ(weights_of(other), weights_of(network));
}

TEST(Transformer, WritesWhatItLearntAsGguf) {
  const butterfly::testing::TempDir folder;
  Transformer network(untrained_model(tiny("gpt2"), {}), {.length = kLength});
  Trainer trainer(network, {.schedule = {.lr = 1e-2}});
  const Tokens data(4, 1);
  trainer.step(data.cut({4}));
  const auto path = folder.path() / "model.gguf";
  network.write_gguf(path);
  const model::ModelFile file = model::open_model(path);
  EXPECT_EQ(file.architecture(), "gpt2");
  for (const auto& [name, tensor] : network.weights())
    EXPECT_EQ(std::memcmp(file.tensor(name, tensor.shape()).raw(), tensor.raw(), tensor.bytes()), 0) << name;
  // A transformer made from the file knows the same.
  Transformer again(file, {.length = kLength});
  Trainer other(again, {});
  EXPECT_EQ(other.evaluate(data.cut({4})).loss, trainer.evaluate(data.cut({4})).loss);
}

TEST(Trainer, MistakesAreErrorsInWords) {
  Transformer network(untrained_model(tiny("llama"), {}), {.length = kLength});
  Trainer trainer(network, {});
  const Tokens data(2, 1);
  EXPECT_THROW(trainer.step({}), Error);
  MicroBatch half = data.cut({1})[0];
  half.targets = half.targets.subspan(3);
  EXPECT_THROW(trainer.evaluate({&half, 1}), Error);
  EXPECT_THROW(Transformer(untrained_model(tiny("llama"), {}), {.length = 1000}), Error);
  EXPECT_THROW(untrained_model(tiny("nonsense"), {}), Error);
}

TEST(Schedule, WarmsUpAndComesDown) {
  Schedule schedule{
      .kind = ScheduleKind::kCosine, .lr = 1, .warmup_steps = 4, .total_steps = 14, .min_ratio = 0.1};
  EXPECT_DOUBLE_EQ(schedule.rate(0), 0.25);
  EXPECT_DOUBLE_EQ(schedule.rate(3), 1);
  EXPECT_DOUBLE_EQ(schedule.rate(4), 1);
  EXPECT_NEAR(schedule.rate(9), 0.55, 1e-12);
  EXPECT_NEAR(schedule.rate(14), 0.1, 1e-12);
  EXPECT_NEAR(schedule.rate(1000), 0.1, 1e-12);
  schedule.kind = ScheduleKind::kLinear;
  EXPECT_NEAR(schedule.rate(9), 0.55, 1e-12);
  EXPECT_EQ(schedule_by_name("linear"), ScheduleKind::kLinear);
  EXPECT_THROW(schedule_by_name("steps"), Error);
}

}  // namespace
}  // namespace butterfly::train
