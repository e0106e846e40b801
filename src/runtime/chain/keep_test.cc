// Changes of plan: what stays in the caches is not computed again, and the tokens are those of the unchanged
// run.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "base/rng.h"
#include "base/testing/temp_dir.h"
#include "runtime/chain/testing/moving_chain.h"
#include "runtime/engine/local_engine.h"
#include "runtime/engine/suspects.h"
#include "runtime/engine/testing/mixed_requests.h"
#include "runtime/testing/models.h"

namespace butterfly::runtime {
namespace {

using testing::Bits;
using testing::bits_of;
using testing::Collector;
using testing::LoadedPart;
using testing::mixed_request;
using testing::MovingChain;

constexpr size_t kLayers = 6, kRequests = 12;

struct ModelOnDisk {
  explicit ModelOnDisk(std::string_view architecture = "llama") {
    model::RandomModelOptions options = testing::small_options(architecture, DType::kQ8_0);
    options.block_count = kLayers;
    options.embedding_length = 128;
    options.feed_forward_length = 256;
    options.head_count = 4;
    write_random_model(path, options);
  }
  butterfly::testing::TempDir folder;
  std::filesystem::path path = folder.path() / "model.gguf";
};

// Until another chain comes.
class NoChain final : public Chain {
 public:
  explicit NoChain(const ChainInfo& info) : info_(info) {}
  const ChainInfo& info() const override { return info_; }
  Status submit(const StepRequest&) override { return why_; }
  StepResult receive(Duration) override {
    return {.epoch = 0, .step = 0, .status = why_, .logits = {}, .hidden = {}};
  }
  Status reset(uint64_t, Duration) override { return why_; }
  void for_each(size_t count, FunctionRef<void(size_t)> fn) override { for_each_in_turn(count, fn); }
  void close() override {}

 private:
  const ChainInfo info_;
  const Status why_{Errc::kPeerLost, "between two plans"};
};

// Longer ones too: texts of several pages.
EngineRequest request_of(size_t i) {
  EngineRequest r = mixed_request(i);
  if (i % 4 == 1) r.tokens_max = 90;
  return r;
}

struct Plan {
  std::vector<size_t> nodes, cuts;
};

// An engine with requests under way, whose chain is changed again and again. The engine stands where one of
// the texts has as many tokens as were waited for, so that changes meet texts that are not done.
class Changes {
 public:
  Changes(const std::filesystem::path& path, const Plan& first, uint64_t kept_bytes,
          const ChainOptions& options = {}, const MovingChain::Moves& moves = {})
      : chain_(path, options, kept_bytes, moves) {
    EngineOptions engine;
    engine.on_chain_lost = [](const Status&) {};
    engine_ = std::make_unique<Engine>(chain_.start(first.nodes, first.cuts), chain_.tokenizer(), engine);
    for (size_t i = 0; i < kRequests; ++i) {
      sinks_.push_back(std::make_shared<Collector>());
      if (i == kLong) sinks_.back()->hold_at(1);
      EXPECT_TRUE(engine_->submit(request_of(i), sinks_.back()).ok());
    }
  }
  ~Changes() {
    sinks_[kLong]->release();
    engine_->stop();
  }

  // Steps under way are lost, wherever they are.
  void change_to(const Plan& plan) {
    engine_->replace_chain(std::make_unique<NoChain>(chain_.info()));
    chain_.stop();
    sinks_[kLong]->release();
    while (!chain_.coordinator_free()) std::this_thread::yield();
    sinks_[kLong]->hold_at(sinks_[kLong]->token_count() + 1);
    engine_->replace_chain(chain_.start(plan.nodes, plan.cuts));
  }
  void wait_for_tokens(size_t count) {
    sinks_[kLong]->hold_at(count);
    sinks_[kLong]->wait_for_tokens(count);
  }
  void lose(size_t node) { chain_.lose(node); }
  EngineStats stats() const { return engine_->stats(); }
  bool done() const {
    return std::ranges::all_of(sinks_, [](const auto& sink) { return sink->finished(); });
  }
  std::vector<Bits> texts() {
    sinks_[kLong]->release();
    std::vector<Bits> texts;
    for (auto& sink : sinks_) {
      EXPECT_EQ(sink->wait().reason, FinishReason::kLength) << sink->wait().status.text();
      texts.push_back(bits_of(*sink));
    }
    return texts;
  }

 private:
  static constexpr size_t kLong = 1;  // request_of() gives it 90 tokens

  MovingChain chain_;
  std::unique_ptr<Engine> engine_;
  std::vector<std::shared_ptr<Collector>> sinks_;
};

std::vector<Bits> unchanged(const ModelOnDisk& model) {
  LoadedPart whole(model.path, {0, kLayers}, 1);
  const auto engine = make_local_engine(*whole.model, whole.compute);
  std::vector<std::shared_ptr<Collector>> sinks;
  for (size_t i = 0; i < kRequests; ++i) {
    sinks.push_back(std::make_shared<Collector>());
    EXPECT_TRUE(engine->submit(request_of(i), sinks.back()).ok());
  }
  std::vector<Bits> texts;
  for (auto& sink : sinks) {
    sink->wait();
    texts.push_back(bits_of(*sink));
  }
  return texts;
}

struct KeepTest : ::testing::Test {
  ModelOnDisk model;
  const std::vector<Bits> want = unchanged(model);
};

constexpr uint64_t kMany = 64 << 20;

// Windows are kept whole, so that what they hold can be claimed; recurrent states are claimed by the position
// that they stand at.
TEST(Keep, LayersOfEveryKindKeepWhatTheyHold) {
  for (const std::string_view architecture : {"gemma3", "qwen35"}) {
    SCOPED_TRACE(architecture);
    const ModelOnDisk model(architecture);
    const std::vector<Bits> want = unchanged(model);
    Changes run(model.path, {{1, 2}, {3, 5}}, kMany);
    run.wait_for_tokens(40);
    run.change_to({{1, 2}, {3, 5}});
    run.wait_for_tokens(60);
    run.lose(2);
    run.change_to({{1, 3}, {3, 5}});
    EXPECT_EQ(run.texts(), want);
    EXPECT_EQ(run.stats().chain_resets, 0u);
  }
}

// A state cannot go back, and the first stages may be a step ahead: then a text goes on from its last whole
// block, and what is behind that (with right guesses) passes all layers again.
constexpr uint64_t kTailMost = kRequests * (31 + graph::kGuessesMax);

struct KeepStatesTest : ::testing::Test {
  ModelOnDisk model{"qwen35"};
  const std::vector<Bits> want = unchanged(model);
};

TEST_F(KeepStatesTest, TheSameStagesReadAtMostABlockAgain) {
  const Plan plan{{1, 2}, {3, 5}};
  Changes run(model.path, plan, kMany);
  run.wait_for_tokens(80);
  run.change_to(plan);
  EXPECT_EQ(run.texts(), want);
  EXPECT_LE(run.stats().again_rows, kTailMost);
  EXPECT_EQ(run.stats().chain_resets, 0u);
}

// Layers 2 and 3 are lost with node 2: all rows pass them, from those that node 1 kept; the others see the
// tails.
TEST_F(KeepStatesTest, OnlyTheLayersOfALostNodeAreComputedAgain) {
  Changes run(model.path, {{1, 2}, {3, 5}}, kMany);
  run.wait_for_tokens(80);
  run.lose(2);
  run.change_to({{1, 3}, {3, 5}});
  EXPECT_EQ(run.texts(), want);
  const EngineStats stats = run.stats();
  EXPECT_GT(stats.again_rows, 80u);
  EXPECT_LE(stats.again_row_layers, 2 * stats.again_rows + (kLayers - 2) * kTailMost);
  EXPECT_EQ(stats.chain_resets, 0u);
}

// Without rows in front of them, the layers before pass theirs again, from the beginning: their states arrive
// where they were.
TEST_F(KeepStatesTest, WithoutKeptRowsTheLayersBeforeAreComputedToo) {
  Changes run(model.path, {{1, 2}, {3, 5}}, 0);
  run.wait_for_tokens(80);
  run.lose(2);
  run.change_to({{1, 3}, {3, 5}});
  EXPECT_EQ(run.texts(), want);
  const EngineStats stats = run.stats();
  EXPECT_LE(stats.again_row_layers, 4 * stats.again_rows + (kLayers - 4) * kTailMost);
  EXPECT_EQ(stats.chain_resets, 0u);
}

TEST_F(KeepTest, TheSameStagesInANewEpochComputeNothingAgain) {
  const Plan plan{{1, 2}, {3, 5}};
  Changes run(model.path, plan, kMany);
  run.wait_for_tokens(40);
  run.change_to(plan);
  EXPECT_EQ(run.texts(), want);
  EXPECT_EQ(run.stats().again_rows, 0u);
  EXPECT_EQ(run.stats().chain_resets, 0u);
}

// Layers 2 and 3 are lost with node 2; node 1 begins with the rows that it had sent there.
TEST_F(KeepTest, OnlyTheLayersOfALostNodeAreComputedAgain) {
  Changes run(model.path, {{1, 2}, {3, 5}}, kMany);
  run.wait_for_tokens(40);
  run.lose(2);
  run.change_to({{1, 3}, {3, 5}});
  EXPECT_EQ(run.texts(), want);
  const EngineStats stats = run.stats();
  EXPECT_GT(stats.again_rows, 40u);
  EXPECT_EQ(stats.again_row_layers, 2 * stats.again_rows);
  EXPECT_EQ(stats.chain_resets, 0u);
}

// The neighbours take over what it had, each a part.
TEST_F(KeepTest, NeighboursShareTheLayersOfALostNode) {
  Changes run(model.path, {{1, 2}, {3, 5}}, kMany);
  run.wait_for_tokens(40);
  run.lose(2);
  run.change_to({{1}, {4}});
  EXPECT_EQ(run.texts(), want);
  EXPECT_EQ(run.stats().again_row_layers, 2 * run.stats().again_rows);
}

TEST_F(KeepTest, WithoutKeptRowsTheLayersBeforeAreComputedToo) {
  Changes run(model.path, {{1, 2}, {3, 5}}, 0);
  run.wait_for_tokens(40);
  run.lose(2);
  run.change_to({{1, 3}, {3, 5}});
  EXPECT_EQ(run.texts(), want);
  EXPECT_EQ(run.stats().again_row_layers, 4 * run.stats().again_rows)
      << "from the tokens to the end of layer 3";
}

TEST_F(KeepTest, RowsBeyondTheBoundComeFromTheTokens) {
  Changes run(model.path, {{1, 2}, {3, 5}}, 4 * 32 * 128 * sizeof(float));  // four pages
  run.wait_for_tokens(40);
  run.lose(2);
  run.change_to({{1, 3}, {3, 5}});
  EXPECT_EQ(run.texts(), want);
  EXPECT_GT(run.stats().again_row_layers, 2 * run.stats().again_rows);
  EXPECT_LT(run.stats().again_row_layers, 4 * run.stats().again_rows);
}

TEST_F(KeepTest, TheFirstNodeIsLost) {
  Changes run(model.path, {{1, 2}, {3, 5}}, kMany);
  run.wait_for_tokens(40);
  run.lose(1);
  run.change_to({{2}, {4}});  // node 2 keeps layers 2 and moves to the front
  EXPECT_EQ(run.texts(), want);
  EXPECT_LE(run.stats().again_row_layers, 4 * run.stats().again_rows);
}

TEST_F(KeepTest, BoundariesMoveBothWaysAndTheModelComesTogetherAgain) {
  Changes run(model.path, {{1}, {4}}, kMany);
  const std::vector<Plan> plans = {{{1}, {6}}, {{1}, {2}}, {{2, 1}, {3, 5}},
                                   {{}, {}},   {{3}, {4}}, {{1, 2, 3, 4}, {1, 2, 4, 6}}};
  for (size_t i = 0; i < plans.size(); ++i) {
    run.wait_for_tokens(10 * (i + 1));
    run.change_to(plans[i]);
  }
  EXPECT_EQ(run.texts(), want);
  EXPECT_GE(run.stats().chains, plans.size());
}

// A coordinator that was started again knows nothing of what its nodes hold, and reuses their pages for other
// texts.
TEST_F(KeepTest, AnotherEngineOnTheSameCachesMixesNothingUp) {
  MovingChain chain(model.path, {}, kMany);
  for (size_t life = 0; life < 2; ++life) {
    Engine engine(chain.start({1, 2}, {3, 5}), chain.tokenizer());
    std::vector<std::shared_ptr<Collector>> sinks;
    for (size_t i = 0; i < kRequests; ++i) {
      sinks.push_back(std::make_shared<Collector>());
      const size_t which = life == 0 ? i : kRequests - 1 - i;
      ASSERT_TRUE(engine.submit(request_of(which), sinks.back()).ok());
    }
    if (life == 0) {
      sinks[1]->wait_for_tokens(20);  // and it dies in the middle of it
      continue;
    }
    for (size_t i = 0; i < kRequests; ++i) {
      sinks[i]->wait();
      EXPECT_EQ(bits_of(*sinks[i]), want[kRequests - 1 - i]);
    }
  }
}

constexpr MovingChain::Moves kSends{.sends = true};

// Node 2 goes, and each neighbour takes a layer of it: all of it is sent.
TEST_F(KeepTest, WhatMovesIsSentAndNothingIsComputedAgain) {
  for (const DType type : {DType::kF16, DType::kQ8_0}) {
    ChainOptions options;
    options.cache.kv_type = type;
    Changes run(model.path, {{1, 2}, {3, 5}}, kMany, options, kSends);
    run.wait_for_tokens(40);
    run.change_to({{1}, {4}});
    const std::vector<Bits> texts = run.texts();
    if (type == DType::kF16) {
      EXPECT_EQ(texts, want);
    }
    const EngineStats stats = run.stats();
    EXPECT_EQ(stats.again_rows, 0u);
    EXPECT_EQ(stats.moves_sent, 1u);
    EXPECT_EQ(stats.moves_computed, 0u);
    EXPECT_GT(stats.moved_bytes, 0u);
    EXPECT_GT(stats.moved_row_layers, 2u * 40);
  }
}

// There and back: a node joins and gets the first layers, the model comes together on the coordinator's.
TEST_F(KeepTest, BoundariesMoveAndAllIsSent) {
  Changes run(model.path, {{1}, {4}}, kMany, {}, kSends);
  const std::vector<Plan> plans = {{{2, 1}, {3, 5}}, {{}, {}}, {{3}, {4}}, {{1, 2, 3, 4}, {1, 2, 4, 6}}};
  for (size_t i = 0; i < plans.size(); ++i) {
    run.wait_for_tokens(10 * (i + 1));
    run.change_to(plans[i]);
  }
  EXPECT_EQ(run.texts(), want);
  EXPECT_EQ(run.stats().again_rows, 0u);
  EXPECT_EQ(run.stats().moves_sent, plans.size());
}

TEST_F(KeepStatesTest, StatesAreSentToo) {
  Changes run(model.path, {{1, 2}, {3, 5}}, kMany, {}, kSends);
  run.wait_for_tokens(80);
  run.change_to({{1}, {4}});
  EXPECT_EQ(run.texts(), want);
  EXPECT_LE(run.stats().again_rows, kTailMost);
  EXPECT_EQ(run.stats().moves_sent, 1u);
  EXPECT_EQ(run.stats().chain_resets, 0u);
}

// Windows and states.
TEST(Keep, LayersOfEveryKindAreSent) {
  for (const std::string_view architecture : {"gemma3", "qwen35"}) {
    SCOPED_TRACE(architecture);
    const ModelOnDisk model(architecture);
    const std::vector<Bits> want = unchanged(model);
    Changes run(model.path, {{1, 2}, {3, 5}}, kMany, {}, kSends);
    run.wait_for_tokens(40);
    run.change_to({{3}, {5}});
    run.wait_for_tokens(60);
    run.change_to({{}, {}});
    EXPECT_EQ(run.texts(), want);
    EXPECT_EQ(run.stats().moves_sent, 2u);
  }
}

// A transfer that breaks off: what came is used, the rest is computed.
TEST_F(KeepTest, WhatDoesNotComeIsComputed) {
  Changes run(model.path, {{1, 2}, {3, 5}}, kMany, {}, {.sends = true, .requests_max = 1});
  run.wait_for_tokens(40);
  run.change_to({{1, 3}, {3, 5}});
  EXPECT_EQ(run.texts(), want);
  EXPECT_GT(run.stats().again_rows, 0u);
  EXPECT_GT(run.stats().moved_bytes, 0u);
  EXPECT_LT(run.stats().again_row_layers, 2 * run.stats().again_rows + 1);
}

// Over a link that is slower than computing nothing is sent.
TEST_F(KeepTest, WhatIsCheaperToComputeIsComputed) {
  Changes run(model.path, {{1, 2}, {3, 5}}, kMany, {}, {.sends = true, .seconds = 1.0});
  run.wait_for_tokens(40);
  run.change_to({{1, 3}, {3, 5}});
  EXPECT_EQ(run.texts(), want);
  EXPECT_EQ(run.stats().moves_sent, 0u);
  EXPECT_EQ(run.stats().moves_computed, 1u);
  EXPECT_EQ(run.stats().moved_bytes, 0u);
  EXPECT_EQ(run.stats().again_row_layers, 2 * run.stats().again_rows);
}

// Random plans and losses at random moments, several before one refill is over.
void expect_same_tokens_through_changes(const ModelOnDisk& model, const std::vector<Bits>& want,
                                        uint64_t seeds, bool sends = false) {
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(seed);
    uint64_t draws = 0;
    const auto draw = [&](size_t below) { return random_u64(seed, 3, draws++) % below; };
    const auto any_plan = [&] {
      Plan plan;
      std::vector<size_t> free = {1, 2, 3, 4};
      for (size_t piece = 1 + draw(4); piece < kLayers + 2 && !free.empty() && plan.cuts.size() < 3;
           piece += 1 + draw(4)) {
        const size_t node = draw(free.size());
        plan.nodes.push_back(free[node]);
        plan.cuts.push_back(piece);
        free.erase(free.begin() + static_cast<ptrdiff_t>(node));
      }
      return plan;
    };
    ChainOptions options;
    if (draw(3) == 0) options.cache.positions = 20 * 32;  // few pages: texts are sent away and come back
    const uint64_t kept[] = {0, 3 * 32 * 128 * sizeof(float), kMany};
    Plan now = any_plan();
    const MovingChain::Moves moves{.sends = sends, .requests_max = draw(2) == 0 ? SIZE_MAX : draw(6)};
    Changes run(model.path, now, kept[draw(3)], options, moves);
    size_t lost = 0;  // one more at the same place would be the request's own doing
    for (size_t change = 0; change < 8 && !run.done(); ++change) {
      if (draw(3) > 0) run.wait_for_tokens(std::min<size_t>(1 + change * 9 + draw(9), 90));
      if (!now.nodes.empty() && draw(2) == 0 && ++lost < Suspects::kLossesMax)
        run.lose(now.nodes[draw(now.nodes.size())]);
      run.change_to(now = any_plan());
    }
    EXPECT_EQ(run.texts(), want);
    if (::testing::Test::HasFailure()) break;
  }
}

TEST_F(KeepTest, AnyChangesGiveTheSameTokens) { expect_same_tokens_through_changes(model, want, 12); }
TEST_F(KeepStatesTest, AnyChangesGiveTheSameTokens) { expect_same_tokens_through_changes(model, want, 6); }
TEST_F(KeepTest, AnyChangesWithSendingGiveTheSameTokens) {
  expect_same_tokens_through_changes(model, want, 12, true);
}
TEST_F(KeepStatesTest, AnyChangesWithSendingGiveTheSameTokens) {
  expect_same_tokens_through_changes(model, want, 6, true);
}

}  // namespace
}  // namespace butterfly::runtime
