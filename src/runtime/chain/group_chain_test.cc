// The promise for stages with several members: engines that serve many requests over them give the bits of
// one machine, also behind a member that is lost.
#include "runtime/chain/group_chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/temp_dir.h"
#include "base/testing/test_name.h"
#include "runtime/chain/testing/inproc_groups.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/local_engine.h"
#include "runtime/engine/testing/mixed_requests.h"

namespace butterfly::runtime {
namespace {

using testing::Bits;
using testing::bits_of;
using testing::Collector;
using testing::InprocGroups;
using testing::Loaded;
using testing::mixed_request;
using testing::SharedStage;

constexpr size_t kRequests = 8;

// Eight shards in each row-parallel product (layers/shared_layers_test.cc looks at that).
struct ModelOnDisk {
  explicit ModelOnDisk(std::string_view architecture = "llama") {
    model::RandomModelOptions options = testing::small_options(architecture, DType::kQ8_0);
    options.embedding_length = 512;
    options.head_length = 64;
    options.feed_forward_length = 512;
    layers = options.block_count;
    write_random_model(path, options);
  }
  butterfly::testing::TempDir folder;
  std::filesystem::path path = folder.path() / "model.gguf";
  size_t layers;
};

// The first of them stands at that many tokens.
std::vector<std::shared_ptr<Collector>> submit(Engine& engine, size_t hold = SIZE_MAX) {
  std::vector<std::shared_ptr<Collector>> sinks;
  for (size_t i = 0; i < kRequests; ++i) {
    sinks.push_back(std::make_shared<Collector>());
    if (i == 0) sinks.back()->hold_at(hold);
    EXPECT_TRUE(engine.submit(mixed_request(i), sinks.back()).ok());
  }
  return sinks;
}

std::vector<Bits> wait(const std::vector<std::shared_ptr<Collector>>& sinks) {
  std::vector<Bits> all;
  for (const auto& sink : sinks) {
    EXPECT_EQ(sink->wait().reason, FinishReason::kLength) << sink->wait().status.text();
    all.push_back(bits_of(*sink));
  }
  return all;
}

std::vector<Bits> run(Engine& engine) { return wait(submit(engine)); }

std::vector<Bits> run_whole(const std::filesystem::path& path) {
  Loaded whole(path, 1);
  return run(*make_local_engine(*whole.model, whole.compute));
}

class GroupKinds : public ::testing::TestWithParam<std::string_view> {};
INSTANTIATE_TEST_SUITE_P(Kinds, GroupKinds,
                         ::testing::Values("llama", "gemma3", "qwen35moe", "qwen3next", "lfm2", "nemotron_h",
                                           "gemma4", "deepseek2"),
                         [](const auto& test) { return butterfly::testing::test_name(test.param); });

TEST_P(GroupKinds, RequestsHaveTheBitsOfOneMachine) {
  const ModelOnDisk model(GetParam());
  const auto want = run_whole(model.path);
  const size_t all = model.layers + 2;
  const std::vector<std::vector<SharedStage>> chains = {
      {{all, {5, 3}}},                               // one stage
      {{all, {1, 4, 0, 3}}},                         // and one of its members has nothing
      {{2, {4, 4}}, {all, {3, 5}}},                  // two stages
      {{1, {8}}, {2, {2, 3, 3}}, {all, {8}}},        // a shared one between two others
      {{2, {7, 1}}, {all - 1, {8}}, {all, {2, 6}}},  // the head alone is shared
  };
  for (const auto& stages : chains) {
    InprocGroups groups(model.path, stages);
    Engine engine(groups.start(), groups.part(stages.size() - 1, 0).tokenizer.get());
    EXPECT_EQ(run(engine), want) << stages.size() << " stages, " << stages.back().units.size() << " members";
    EXPECT_EQ(engine.stats().chain_resets, 0u);
  }
}

// States are kept and found again, and brought past guesses, by every member for its own heads.
class GroupRecurrent : public ::testing::TestWithParam<std::string_view> {};
INSTANTIATE_TEST_SUITE_P(Kinds, GroupRecurrent,
                         ::testing::Values("qwen35", "qwen3next", "lfm2", "nemotron_h", "granitehybrid"),
                         [](const auto& test) { return butterfly::testing::test_name(test.param); });

TEST_P(GroupRecurrent, ReuseAndGuessesChangeNothing) {
  const ModelOnDisk model(GetParam());
  // Texts that turn in a circle for a while, so that most guesses are right and some are not; twice, so that
  // there is something to reuse.
  const auto ask = [](Engine& engine) {
    std::vector<Bits> all;
    for (const int32_t token : {5, 77, 5}) {
      EngineRequest request = mixed_request(1);
      request.tokens_max = 100;
      request.sampling.logit_bias = {{token, token == 5 ? 1000.0f : 3.0f}};
      request.sampling.temperature = 0.5f;
      const auto sink = std::make_shared<Collector>();
      EXPECT_TRUE(engine.submit(std::move(request), sink).ok());
      for (Bits& bits : wait({sink})) all.push_back(std::move(bits));
    }
    return all;
  };
  EngineOptions plain;
  plain.scheduler.reuse_prefix = plain.scheduler.speculate = false;
  std::vector<Bits> want;
  {
    Loaded whole(model.path, 1);
    want = ask(*make_local_engine(*whole.model, whole.compute, {.engine = plain}));
  }
  const size_t all = model.layers + 2;
  const std::vector<std::vector<SharedStage>> chains = {
      {{all, {5, 3}}}, {{all, {1, 2, 0, 4, 1}}}, {{2, {4, 4}}, {all, {3, 2, 3}}}};
  for (const auto& stages : chains) {
    InprocGroups groups(model.path, stages);
    Engine engine(groups.start(), groups.part(stages.size() - 1, 0).tokenizer.get());
    EXPECT_EQ(ask(engine), want) << stages.size() << " stages";
    EXPECT_GT(engine.stats().cached_tokens, 0u);
    EXPECT_GT(engine.stats().draft_accepted, 0u);
    EXPECT_EQ(engine.stats().chain_resets, 0u);
  }
}

TEST(GroupChain, SeveralThreadsEach) {
  const ModelOnDisk model;
  const auto want = run_whole(model.path);
  InprocGroups groups(model.path, {{2, {6, 2}}, {4, {3, 5}}}, {}, 2);
  Engine engine(groups.start(), groups.part(1, 0).tokenizer.get());
  EXPECT_EQ(run(engine), want);
}

// The engine gets another chain, and goes on behind what it has written down.
TEST(GroupChain, ALostMemberIsALostStage) {
  const ModelOnDisk model;
  const auto want = run_whole(model.path);
  const std::vector<std::vector<SharedStage>> chains = {
      {{4, {4, 4}}}, {{2, {8}}, {4, {3, 2, 3}}}, {{3, {2, 6}}, {4, {8}}}};
  for (const auto& stages : chains)
    for (size_t member = 0; member < stages.back().units.size() + (stages.size() > 1 ? 1 : 0); ++member) {
      InprocGroups groups(model.path, stages), others(model.path, {{4, {3, 5}}});
      EngineOptions options;
      std::atomic<int> lost{0};
      options.on_chain_lost = [&](const Status&) { ++lost; };
      Engine engine(groups.start(), groups.part(stages.size() - 1, 0).tokenizer.get(), options);
      const auto sinks = submit(engine, 4);
      sinks[0]->wait_for_tokens(4);
      const size_t stage = member < stages.back().units.size() ? stages.size() - 1 : 0;
      groups.lose(stage, stage == stages.size() - 1 ? member : stages[0].units.size() - 1);
      sinks[0]->release();
      while (lost == 0) std::this_thread::yield();
      engine.replace_chain(others.start());
      EXPECT_EQ(wait(sinks), want) << "stage " << stage << ", member " << member;
      for (const Status& end : groups.ends()) EXPECT_FALSE(end.ok());
    }
}

// Prompts that are long enough for halves whose exchanges are under way while the other half computes.
TEST(GroupChain, LongPromptsInHalvesHaveTheBitsOfOneMachine) {
  const ModelOnDisk model;
  const auto submit_long = [](Engine& engine, size_t hold = SIZE_MAX) {
    std::vector<std::shared_ptr<Collector>> sinks;
    for (size_t i = 0; i < 3; ++i) {
      EngineRequest request = mixed_request(i);
      request.prompt = testing::some_tokens(170 + 40 * i, 320);
      request.prompt[0] = static_cast<int32_t>(i);  // nothing to reuse
      request.tokens_max = 6;
      sinks.push_back(std::make_shared<Collector>());
      if (i == 0) sinks.back()->hold_at(hold);
      EXPECT_TRUE(engine.submit(std::move(request), sinks.back()).ok());
    }
    return sinks;
  };
  std::vector<Bits> want;
  {
    Loaded whole(model.path, 1);
    const auto engine = make_local_engine(*whole.model, whole.compute);
    want = wait(submit_long(*engine));
  }
  const std::vector<std::vector<SharedStage>> chains = {{{4, {5, 3}}}, {{2, {4, 4}}, {4, {3, 2, 3}}}};
  for (const auto& stages : chains) {
    InprocGroups groups(model.path, stages), others(model.path, {{4, {3, 5}}});
    EngineOptions options;
    std::atomic<int> lost{0};
    options.on_chain_lost = [&](const Status&) { ++lost; };
    Engine engine(groups.start(), groups.part(stages.size() - 1, 0).tokenizer.get(), options);
    EXPECT_EQ(wait(submit_long(engine)), want);
    const auto sinks = submit_long(engine, 1);
    groups.lose(0, 1);  // somewhere in the middle of the prompts
    sinks[0]->release();
    while (lost == 0) std::this_thread::yield();
    engine.replace_chain(others.start());
    EXPECT_EQ(wait(sinks), want);
  }
}

// A member that waits for another one has nothing to do itself: it is not the one that hangs.
TEST(GroupChain, WhoWaitsForAMemberHasNothingPending) {
  const ModelOnDisk model;
  InprocGroups groups(model.path, {{2, {4, 4}}, {4, {8}}});
  const auto chain = groups.start();
  ASSERT_TRUE(chain->reset(5, std::chrono::seconds(30)).ok());
  EXPECT_EQ(groups.worker(0, 0).pending(), 0u);
  groups.lose(0, 1);
  EXPECT_EQ(chain
                ->submit({.epoch = 5,
                          .step = 1,
                          .commands = {{KvCommand::Kind::kPlace, 0, 0, 0}},
                          .rows = {{1, 0, 0, RowOutput::kLogits}}})
                .ok(),
            true);
  const StepResult result = chain->receive(std::chrono::seconds(30));
  EXPECT_EQ(result.status.code(), Errc::kPeerLost) << result.status.text();
  EXPECT_THAT(groups.ends().at(0).text(), ::testing::HasSubstr("member 1"));
}

}  // namespace
}  // namespace butterfly::runtime
