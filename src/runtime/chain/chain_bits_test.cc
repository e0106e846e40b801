// The promise across machines: a chain of stages gives the bits of one machine, however it is cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <filesystem>

#include "base/rng.h"
#include "base/testing/temp_dir.h"
#include "base/testing/test_name.h"
#include "runtime/chain/testing/inproc_chain.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/local_chain.h"
#include "runtime/engine/local_engine.h"
#include "runtime/engine/testing/mixed_requests.h"
#include "runtime/testing/models.h"

namespace butterfly::runtime {
namespace {

using testing::Bits;
using testing::bits_of;
using testing::Collector;
using testing::InprocChain;
using testing::LoadedPart;
using testing::mixed_request;
using testing::some_tokens;

constexpr size_t kLayers = 5, kPieces = kLayers + 2;

// A random model in a folder of its own.
struct ModelOnDisk {
  explicit ModelOnDisk(std::string_view architecture = "llama", DType type = DType::kQ8_0,
                       bool tied = false) {
    model::RandomModelOptions options = testing::small_options(architecture, type);
    options.block_count = kLayers;
    options.embedding_length = 128;
    options.feed_forward_length = 256;
    options.head_count = 4;
    options.tied = tied;
    write_random_model(path, options);
  }
  butterfly::testing::TempDir folder;
  std::filesystem::path path = folder.path() / "model.gguf";
};

// Those of the cuts that the model allows.
std::vector<size_t> allowed(const std::filesystem::path& path, std::vector<size_t> cuts) {
  const auto states = model::read_config(model::open_model(path)).states;
  std::erase_if(cuts, [&](size_t cut) {  // in front of the embedding's and the head's piece it always may be
    return cut > 1 && cut <= kLayers && !model::may_cut(cut - 1, states);
  });
  return cuts;
}

// Logits after every token, in two pieces and then one by one, through parts cut at these pieces.
std::vector<uint32_t> chain_logits(const std::filesystem::path& path, const std::vector<size_t>& wanted) {
  const std::vector<size_t> cuts = allowed(path, wanted);
  std::vector<std::unique_ptr<LoadedPart>> parts;
  std::vector<Compute::Turn> turns;
  std::vector<std::unique_ptr<CachedLayers>> stages;
  for (size_t i = 0; i <= cuts.size(); ++i) {
    const size_t begin = i == 0 ? 0 : cuts[i - 1], end = i == cuts.size() ? kPieces : cuts[i];
    parts.push_back(
        std::make_unique<LoadedPart>(path, model::range_of_pieces(begin, end, kLayers), 1 + i % 2));
    turns.push_back(parts.back()->compute.take());
    stages.push_back(
        std::make_unique<CachedLayers>(*parts.back()->model, turns.back().pool(), CachedLayersOptions{}));
  }
  const auto tokens = some_tokens(37, 320);
  std::vector<uint32_t> bits;
  uint32_t position = 0;
  for (size_t piece : {33, 3, 1}) {
    std::vector<BatchRow> rows;
    for (size_t i = 0; i < piece; ++i, ++position) rows.push_back({tokens[position], 0, position, true});
    std::vector<float> values;
    for (auto& stage : stages) {
      const auto out = stage->run(rows, values);
      values.assign(out.begin(), out.end());
    }
    for (const float logit : values) bits.push_back(std::bit_cast<uint32_t>(logit));
  }
  return bits;
}

class ChainArchitecture : public ::testing::TestWithParam<std::string_view> {};

TEST_P(ChainArchitecture, AnyCutGivesTheBitsOfTheWhole) {
  for (const bool tied : {false, true}) {
    ModelOnDisk model(GetParam(), tied ? DType::kF32 : DType::kQ8_0, tied);
    const auto want = chain_logits(model.path, {});
    ASSERT_EQ(want.size(), 37u * 320);
    EXPECT_GE(allowed(model.path, {1, 2, 3, 4, 5, 6}).size(), 4u) << "there is something to cut";
    for (const size_t cut : {1, 3, 6}) EXPECT_EQ(chain_logits(model.path, {cut}), want) << "cut at " << cut;
    EXPECT_EQ(chain_logits(model.path, {2, 5}), want);
    EXPECT_EQ(chain_logits(model.path, {1, 2, 4, 6}), want);
    EXPECT_EQ(chain_logits(model.path, {1, 2, 3, 4, 5, 6}), want) << "every piece alone";
  }
}

TEST_P(ChainArchitecture, PartsHoldNoMoreThanTheirShare) {
  ModelOnDisk model(GetParam());
  uint64_t sum = 0;
  const LoadedPart whole(model.path, {0, kLayers}, 1);
  for (size_t piece = 0; piece < kPieces; ++piece) {
    const LoadedPart part(model.path, model::range_of_pieces(piece, piece + 1, kLayers), 1);
    EXPECT_GT(part.model->resident_bytes, 0u);
    EXPECT_LT(part.model->resident_bytes, whole.model->resident_bytes / 2) << "piece " << piece;
    sum += part.model->resident_bytes;
  }
  EXPECT_EQ(sum, whole.model->resident_bytes);
}

std::vector<std::string_view> architecture_names() {
  std::vector<std::string_view> names;
  for (const model::RandomArchitecture& row : model::random_architectures()) names.push_back(row.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Architectures, ChainArchitecture, ::testing::ValuesIn(architecture_names()),
                         [](const auto& test) { return butterfly::testing::test_name(test.param); });

constexpr size_t kRequests = 16;

struct Texts {
  std::vector<Bits> bits;
  EngineStats stats;
};

Texts run(Engine& engine) {
  std::vector<std::shared_ptr<Collector>> sinks;
  for (size_t i = 0; i < kRequests; ++i) {
    sinks.push_back(std::make_shared<Collector>());
    EXPECT_TRUE(engine.submit(mixed_request(i), sinks.back()).ok());
  }
  Texts texts;
  for (auto& sink : sinks) {
    EXPECT_EQ(sink->wait().reason, FinishReason::kLength) << sink->wait().status.text();
    texts.bits.push_back(bits_of(*sink));
  }
  texts.stats = engine.stats();
  return texts;
}

// So large that windows are cut.
ChainOptions large_cache() {
  ChainOptions options;
  options.cache.positions = 8192;
  return options;
}

Texts run_whole(const std::filesystem::path& path, const EngineOptions& options) {
  LoadedPart whole(path, {0, kLayers}, 1);
  const auto engine = make_local_engine(*whole.model, whole.compute, {.engine = options});
  return run(*engine);
}

Texts run_chain(InprocChain& chain, const EngineOptions& options,
                std::shared_ptr<ChainTimes> times = nullptr) {
  Engine engine(chain.start(std::move(times)), chain.part(chain.stages() - 1).tokenizer.get(), options);
  return run(engine);
}

// Layers that keep all positions, a window, a recurrent state, nothing, another layer's keys, latents.
class ChainKinds : public ::testing::TestWithParam<std::string_view> {};
INSTANTIATE_TEST_SUITE_P(Kinds, ChainKinds,
                         ::testing::Values("llama", "gemma3", "qwen35", "qwen3next", "gemma4", "nemotron_h",
                                           "granitehybrid", "deepseek2"),
                         [](const auto& test) { return butterfly::testing::test_name(test.param); });

TEST_P(ChainKinds, SixteenRequestsHaveTheBitsOfOneMachine) {
  ModelOnDisk model(GetParam());
  EngineOptions plain;
  plain.scheduler.reuse_prefix = plain.scheduler.speculate = false;
  const Texts want = run_whole(model.path, plain);
  const std::vector<std::vector<size_t>> all_cuts = {{3}, {2, 5}, {1, 3, 4, 6}};
  for (const auto& wanted : all_cuts) {
    const std::vector<size_t> cuts = allowed(model.path, wanted);
    InprocChain chain(model.path, cuts, large_cache());
    EXPECT_EQ(chain.stages(), cuts.size() + 1);
    EXPECT_EQ(run_chain(chain, plain).bits, want.bits) << chain.stages() << " stages";
    const Texts lively = run_chain(chain, {});
    EXPECT_EQ(lively.bits, want.bits) << chain.stages() << " stages, with reuse and guesses";
    EXPECT_GT(lively.stats.cached_tokens, 0u);
    EXPECT_EQ(lively.stats.chain_resets, 0u);
  }
}

TEST_P(ChainKinds, FewPagesAndShortStepsChangeNothing) {
  ModelOnDisk model(GetParam());
  const Texts want = run_whole(model.path, {});
  ChainOptions options;
  options.cache.positions = 480;
  options.cache.rows_max = 24;
  InprocChain chain(model.path, allowed(model.path, {2, 4}), options);
  EXPECT_EQ(run_chain(chain, {}).bits, want.bits);
}

TEST(ChainEngine, TimesOfEveryStageComeBack) {
  ModelOnDisk model;
  const auto times = std::make_shared<ChainTimes>();
  InprocChain chain(model.path, {2, 5});
  const Texts done = run_chain(chain, {}, times);
  const ChainTimes::View view = times->view();
  EXPECT_EQ(view.steps, done.stats.steps);
  EXPECT_EQ(view.rows, done.stats.rows);
  ASSERT_EQ(view.stages.size(), 3u);
  for (const StageTimes& stage : view.stages) {
    EXPECT_GT(stage.compute.count(), 0);
    EXPECT_GT(stage.receive.count(), 0);
    EXPECT_GT(stage.send.count(), 0);
  }
  EXPECT_GT(view.total.count(), 0);
  chain.ends();  // a worker counts a step after it was sent on
  EXPECT_EQ(chain.worker(0).stats().rows, done.stats.rows);
  EXPECT_EQ(chain.worker(1).progress(), done.stats.steps);
}

// A step that began with a token that was not chosen after all: its page is placed, its logits are not
// computed, and those of the next step are what they are without it.
TEST(ChainEngine, AStepThatIsSkippedLeavesNothingBehind) {
  ModelOnDisk model;
  InprocChain parts(model.path, {2, 5});
  const auto logits = [&](bool skips) {
    const auto chain = parts.start();
    EXPECT_TRUE(chain->reset(1, std::chrono::seconds(5)).ok());
    const auto tokens = some_tokens(chain->info().page_positions + 3, chain->info().vocab);
    const auto place = [](uint32_t block) { return KvCommand{KvCommand::Kind::kPlace, 0, block, block}; };
    const auto position = static_cast<uint32_t>(chain->info().page_positions);
    StepRequest read{.epoch = 1, .step = 1, .commands = {place(0)}};
    for (uint32_t i = 0; i < position; ++i)
      read.rows.push_back({tokens[i], 0, i, i + 1 == position ? RowOutput::kLogits : RowOutput::kNone});
    const int32_t guess = tokens[position] == 7 ? 8 : 7;
    const StepRequest ahead{
        .epoch = 1, .step = 2, .commands = {place(1)}, .rows = {{guess, 0, position, RowOutput::kLogits}}};
    StepRequest next{.epoch = 1, .step = 3, .rows = {{tokens[position], 0, position, RowOutput::kLogits}}};
    if (!skips) next.commands = ahead.commands;
    EXPECT_TRUE(chain->submit(read).ok());
    if (skips) EXPECT_TRUE(chain->submit(ahead).ok());
    EXPECT_TRUE(chain->receive(std::chrono::seconds(5)).status.ok());
    if (skips) {
      chain->skip();
      const StepResult skipped = chain->receive(std::chrono::seconds(5));
      EXPECT_TRUE(skipped.status.ok());
      EXPECT_EQ(skipped.step, 2u);
      EXPECT_TRUE(skipped.logits.empty());
    }
    EXPECT_TRUE(chain->submit(next).ok());
    const StepResult result = chain->receive(std::chrono::seconds(5));
    EXPECT_TRUE(result.status.ok());
    std::vector<uint32_t> bits;
    for (const float logit : result.logits) bits.push_back(std::bit_cast<uint32_t>(logit));
    return bits;
  };
  const auto want = logits(false);
  EXPECT_EQ(want.size(), 320u);
  EXPECT_EQ(logits(true), want);
}

TEST(ChainEngine, EmbeddingsHaveTheBitsOfOneMachine) {
  ModelOnDisk model;
  const auto embed = [](Engine& engine) {
    auto sink = std::make_shared<Collector>();
    EngineRequest r = mixed_request(4);
    r.kind = RequestKind::kEmbed;
    EXPECT_TRUE(engine.submit(std::move(r), sink).ok());
    std::vector<uint32_t> bits;
    for (const float value : sink->wait().embedding) bits.push_back(std::bit_cast<uint32_t>(value));
    return bits;
  };
  LoadedPart whole(model.path, {0, kLayers}, 1);
  const auto local = make_local_engine(*whole.model, whole.compute);
  InprocChain chain(model.path, {4});
  Engine engine(chain.start(), nullptr);
  const auto want = embed(*local);
  EXPECT_EQ(want.size(), 128u);
  EXPECT_EQ(embed(engine), want);
}

TEST(ChainEngine, CancellationLeavesTheOthersAlone) {
  ModelOnDisk model;
  const Texts want = run_whole(model.path, {});
  InprocChain chain(model.path, {2, 4});
  Engine engine(chain.start(), chain.part(2).tokenizer.get());
  std::vector<std::shared_ptr<Collector>> sinks;
  std::vector<RequestId> ids;
  for (size_t i = 0; i < kRequests; ++i) {
    sinks.push_back(std::make_shared<Collector>());
    EngineRequest r = mixed_request(i);
    if (i % 2 == 1) r.tokens_max = 400;
    if (i == 1) sinks.back()->hold_at(2);
    ids.push_back(*engine.submit(std::move(r), sinks.back()));
  }
  for (size_t i = 1; i < kRequests; i += 2) {
    sinks[i]->wait_for_tokens(1 + i % 5);
    engine.cancel(ids[i]);
    if (i + 2 < kRequests) sinks[i + 2]->hold_at(1 + (i + 2) % 5);
    sinks[i]->release();
  }
  for (size_t i = 0; i < kRequests; ++i) {
    const FinishReason reason = sinks[i]->wait().reason;
    if (i % 2 == 0) {
      EXPECT_EQ(bits_of(*sinks[i]), want.bits[i]);
    } else {
      EXPECT_EQ(reason, FinishReason::kCancelled);
    }
  }
  EXPECT_EQ(engine.stats().pages_used, 0u);
}

// Lossy rows are still a function of the text alone.
TEST(ChainEngine, LossyRowsGiveTheSameTokensInAnyCompany) {
  ModelOnDisk model;
  const Texts exact = run_whole(model.path, {});
  for (const char* name : {"f16", "int8"}) {
    ChainOptions options;
    options.format = &find_row_format(name);
    InprocChain chain(model.path, {3}, options);
    const Texts together = run_chain(chain, {});
    EXPECT_NE(together.bits, exact.bits) << name;
    Engine engine(chain.start(), chain.part(1).tokenizer.get(), {.scheduler = {.running_max = 1}});
    EXPECT_EQ(run(engine).bits, together.bits) << name;
  }
}

// Loses a worker `losses` times, each time after some tokens, and goes on with the next chain.
void lose_workers(const std::vector<InprocChain*>& chains, size_t victim, size_t after, size_t losses,
                  const Texts& want) {
  // Whoever plans anew: on a thread of its own, as in a real cluster.
  std::mutex mutex;
  std::condition_variable changed;
  size_t lost = 0, replaced = 0;
  EngineOptions options;
  options.on_chain_lost = [&](const Status& status) {
    EXPECT_EQ(status.code(), Errc::kPeerLost);
    std::lock_guard lock(mutex);
    ++lost;
    changed.notify_all();
  };
  InprocChain* now = chains[0];
  Engine engine(now->start(), now->part(now->stages() - 1).tokenizer.get(), options);
  std::vector<std::shared_ptr<Collector>> sinks;
  for (size_t i = 0; i < kRequests; ++i) {
    sinks.push_back(std::make_shared<Collector>());
    ASSERT_TRUE(engine.submit(mixed_request(i), sinks.back()).ok());
  }
  for (size_t i = 0; i < losses; ++i) {
    sinks[(victim * 5 + i) % kRequests]->wait_for_tokens(after * (i + 1) % 19);
    if (std::ranges::all_of(sinks, [](auto& sink) { return sink->finished(); })) break;
    now->lose(std::min(victim, now->stages() - 2));
    std::unique_lock lock(mutex);
    const bool noticed = changed.wait_for(lock, std::chrono::seconds(60), [&] {
      return lost > replaced || std::ranges::all_of(sinks, [](auto& sink) { return sink->finished(); });
    });
    ASSERT_TRUE(noticed);
    if (lost == replaced) break;  // all were done before anyone noticed
    lock.unlock();
    now = chains[(i + 1) % chains.size()];
    engine.replace_chain(now->start());
    ++replaced;
  }
  for (size_t i = 0; i < kRequests; ++i) {
    const FinishEvent& end = sinks[i]->wait();
    EXPECT_EQ(end.reason, FinishReason::kLength) << end.status.text();
    EXPECT_EQ(bits_of(*sinks[i]), want.bits[i]) << i;
  }
  EXPECT_EQ(engine.stats().chains, replaced);
}

// Any worker dies at any moment; the streams go on on another chain with the tokens of the unfailed run.
struct ChainLoss : ::testing::Test {
  ModelOnDisk model;
  const Texts want = run_whole(model.path, {});
};

TEST_P(ChainKinds, StreamsGoOnWithTheSameTokens) {
  ModelOnDisk model(GetParam());
  const Texts want = run_whole(model.path, {});
  const auto cuts = [&](const std::vector<size_t>& wanted, const std::vector<size_t>& otherwise) {
    return allowed(model.path, wanted) == wanted ? wanted : otherwise;
  };
  InprocChain first(model.path, cuts({1, 3, 5}, {1, 3, 6}), large_cache()),
      second(model.path, cuts({4}, {2}), large_cache()), third(model.path, {2, 6}, large_cache());
  for (uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    lose_workers({&first, &second, &third}, random_u64(seed, 1, 0) % 3, random_u64(seed, 1, 1) % 8,
                 1 + random_u64(seed, 1, 2) % 3, want);
    if (HasFailure()) break;
  }
}

TEST_F(ChainLoss, AModelThatIsNoLongerSplitGoesOnToo) {
  InprocChain chain(model.path, {3});
  LoadedPart whole(model.path, {0, kLayers}, 1);
  Engine* self = nullptr;
  EngineOptions options;
  // Replaced from the engine's own thread, and before anybody had to wait.
  options.on_chain_lost = [&](const Status&) {
    self->replace_chain(std::make_unique<LocalChain>(*whole.model, whole.compute, PagedLayersOptions{}));
  };
  Engine engine(chain.start(), chain.part(1).tokenizer.get(), options);
  self = &engine;
  std::vector<std::shared_ptr<Collector>> sinks;
  for (size_t i = 0; i < kRequests; ++i) {
    sinks.push_back(std::make_shared<Collector>());
    ASSERT_TRUE(engine.submit(mixed_request(i), sinks.back()).ok());
  }
  sinks[3]->wait_for_tokens(2);
  chain.lose(0);
  for (size_t i = 0; i < kRequests; ++i) {
    EXPECT_EQ(sinks[i]->wait().reason, FinishReason::kLength);
    EXPECT_EQ(bits_of(*sinks[i]), want.bits[i]);
  }
}

TEST_F(ChainLoss, WithoutAnotherChainRequestsEndWithATypedError) {
  InprocChain chain(model.path, {3});
  EngineOptions options;
  options.on_chain_lost = [](const Status&) {};
  options.chain_wait_max = std::chrono::milliseconds(30);
  Engine engine(chain.start(), chain.part(1).tokenizer.get(), options);
  auto sink = std::make_shared<Collector>();
  EngineRequest r = mixed_request(0);
  r.tokens_max = 400;
  sink->hold_at(1);
  ASSERT_TRUE(engine.submit(std::move(r), sink).ok());
  sink->wait_for_tokens(1);
  chain.lose(0);
  sink->release();
  EXPECT_EQ(sink->wait().reason, FinishReason::kError);
  EXPECT_EQ(sink->wait().status.code(), Errc::kPeerLost);
  EXPECT_TRUE(engine.stats().chain_lost);
  // And the engine serves again once it has a chain.
  engine.replace_chain(chain.start());
  auto next = std::make_shared<Collector>();
  ASSERT_TRUE(engine.submit(mixed_request(1), next).ok());
  EXPECT_EQ(next->wait().reason, FinishReason::kLength);
  EXPECT_FALSE(engine.stats().chain_lost);
}

}  // namespace
}  // namespace butterfly::runtime
