// Requests that name adapters, or none, in the steps of one engine: each has the bits of an engine whose
// model was loaded with its adapter alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/rng.h"
#include "base/testing/temp_dir.h"
#include "model/adapter/adapter_write.h"
#include "runtime/engine/adapter_table.h"
#include "runtime/engine/local_chain.h"
#include "runtime/engine/local_engine.h"
#include "runtime/engine/testing/mixed_requests.h"

namespace butterfly::runtime {
namespace {

using testing::Bits;
using testing::bits_of;
using testing::Collector;
using testing::mixed_request;
using testing::small_options;

constexpr size_t kRequests = 12, kTexts = 3;  // of the model, and of two adapters, in turn

// Of every matrix that takes one, the output layer's and the embedding's among them. Above 0 the scale
// differs from 1.
model::Adapter adapter_of(const model::ModelFile& file, int64_t rank, uint64_t seed) {
  model::Adapter adapter = testing::full_adapter(file, {}, static_cast<size_t>(rank), seed);
  const model::NamedTensor& table = *file.find(std::string(model::kEmbeddingTensor));
  model::LoraPair pair{std::string(model::kEmbeddingTensor),
                       Tensor::zeros(DType::kF32, {table.shape[0], rank}),
                       Tensor::zeros(DType::kF32, {table.shape[1], rank})};
  for (Tensor* of : {&pair.a, &pair.b})
    for (int64_t i = 0; i < of->count(); ++i)
      of->data<float>()[i] = 0.1f * random_normal(seed, 77, static_cast<uint64_t>(i));
  adapter.pairs.push_back(std::move(pair));
  return adapter;
}

struct Kind {
  std::string_view architecture;
  DType type;
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.architecture; }

class AdapterBatch : public ::testing::TestWithParam<Kind> {
 protected:
  AdapterBatch() {
    model::RandomModelOptions options = small_options(GetParam().architecture, GetParam().type);
    options.seed = 7;
    model::write_random_model(path, options);
    const model::ModelFile file = model::open_model(path);
    specs = {{dir / "one.gguf", 1}, {dir / "two.gguf", -0.5f}};
    model::write_gguf_adapter(specs[0].path, adapter_of(file, 4, 3), file);
    // No more than the narrowest matrix has: a router of four experts.
    const int64_t rank = GetParam().architecture == "llama" ? 19 : 3;
    model::write_gguf_adapter(specs[1].path, adapter_of(file, rank, 5), file);
    shared = load({}, true);
    table = std::make_shared<AdapterTable>();
    adapters = {nullptr, table->add(*shared, specs[0], "one"), table->add(*shared, specs[1], "two")};
  }

  std::unique_ptr<LoadedModel> load(std::vector<model::AdapterSpec> with, bool sites) const {
    ThreadPool pool(2);
    LoadOptions options;
    options.adapters = std::move(with);
    options.adapter_sites = sites;
    return load_model(path, pool, options);
  }

  // Requests that the engine's own model has: all of them, or those of one adapter.
  static std::vector<Bits> run(Engine& engine, const std::vector<EngineRequest>& requests, bool together) {
    std::vector<std::shared_ptr<Collector>> sinks;
    for (const EngineRequest& request : requests) {
      sinks.push_back(std::make_shared<Collector>());
      const auto id = engine.submit(copy(request), sinks.back());
      EXPECT_TRUE(id.ok()) << id.status().text();
      if (!together) sinks.back()->wait();
    }
    std::vector<Bits> bits;
    for (auto& sink : sinks) {
      EXPECT_EQ(sink->wait().reason, FinishReason::kLength) << sink->wait().status.text();
      bits.push_back(bits_of(*sink));
    }
    return bits;
  }
  static EngineRequest copy(const EngineRequest& request) {
    EngineRequest same{static_cast<const RequestOptions&>(request)};
    same.prompt = request.prompt;
    return same;
  }
  std::vector<Bits> run_shared(const LocalEngineOptions& options, const std::vector<EngineRequest>& requests,
                               bool together, size_t threads = 2, EngineStats* stats = nullptr) const {
    Compute compute(threads);
    LocalEngineOptions with = options;
    with.engine.adapters = table;
    const auto engine = make_local_engine(*shared, compute, with);
    auto bits = run(*engine, requests, together);
    if (stats != nullptr) *stats = engine->stats();
    return bits;
  }
  // One by one, each in an engine whose model has its adapter in all its layers.
  std::vector<Bits> run_apart(const std::vector<EngineRequest>& requests) const {
    std::vector<Bits> bits(requests.size());
    for (size_t text = 0; text < kTexts; ++text) {
      const auto model =
          load(text == 0 ? std::vector<model::AdapterSpec>() : std::vector{specs[text - 1]}, false);
      Compute compute(1);
      LocalEngineOptions plain;
      plain.engine.scheduler.reuse_prefix = plain.engine.scheduler.speculate = false;
      const auto engine = make_local_engine(*model, compute, plain);
      for (size_t i = 0; i < requests.size(); ++i) {
        if (requests[i].adapter != adapters[text]) continue;
        EngineRequest request = copy(requests[i]);
        request.adapter = nullptr;
        std::vector<EngineRequest> one;
        one.push_back(std::move(request));
        bits[i] = run(*engine, one, false)[0];
      }
    }
    return bits;
  }
  std::vector<EngineRequest> requests(size_t count = kRequests) const {
    std::vector<EngineRequest> all;
    for (size_t i = 0; i < count; ++i) {
      all.push_back(mixed_request(i / kTexts));  // the same text for all three
      all.back().adapter = adapters[i % kTexts];
    }
    return all;
  }

  butterfly::testing::TempDir dir;
  std::filesystem::path path = dir / "model.gguf";
  std::vector<model::AdapterSpec> specs;
  std::unique_ptr<LoadedModel> shared;
  std::shared_ptr<AdapterTable> table;
  std::vector<AdapterPtr> adapters;
};

TEST_P(AdapterBatch, CompanyThreadsReuseAndGuessesChangeNothing) {
  const auto all = requests();
  const std::vector<Bits> want = run_apart(all);
  for (size_t text = 1; text < kTexts; ++text)
    ASSERT_NE(want[text], want[0]) << "the adapter changes nothing";
  ASSERT_NE(want[1], want[2]);
  LocalEngineOptions plain;
  plain.engine.scheduler.reuse_prefix = plain.engine.scheduler.speculate = false;
  EXPECT_EQ(run_shared(plain, all, true, 1), want) << "all at once";
  EXPECT_EQ(run_shared(plain, all, true, 3), want) << "on three threads";
  EngineStats stats;
  EXPECT_EQ(run_shared({}, all, false, 2, &stats), want) << "one after the other, with reuse and guesses";
  EXPECT_EQ(run_shared({}, all, true), want) << "all of it at once";
  EXPECT_EQ(run_shared({.layers = {.positions = 480, .rows_max = 40}}, all, true), want) << "and few pages";
}

class AdapterEngine : public AdapterBatch {};

// A text that another one has computed is found again by those with the same adapter alone.
TEST_P(AdapterEngine, BeginningsAreSharedWithinAnAdapterOnly) {
  Compute compute(2);
  LocalEngineOptions options;
  options.engine.adapters = table;
  const auto engine = make_local_engine(*shared, compute, options);
  const auto cached = [&](const AdapterPtr& adapter) {
    EngineRequest request = mixed_request(4);
    request.adapter = adapter;
    const uint64_t before = engine->stats().cached_tokens;
    std::vector<EngineRequest> one;
    one.push_back(std::move(request));
    run(*engine, one, false);
    return engine->stats().cached_tokens - before;
  };
  for (const AdapterPtr& adapter : adapters) EXPECT_EQ(cached(adapter), 0u);
  for (const AdapterPtr& adapter : adapters) EXPECT_EQ(cached(adapter), 32u);
}

TEST_P(AdapterEngine, RowsOfAllShareTheirSteps) {
  Compute compute(2);
  LocalEngineOptions options;
  options.engine.adapters = table;
  options.engine.scheduler.speculate = false;
  const auto engine = make_local_engine(*shared, compute, options);
  std::vector<std::shared_ptr<Collector>> sinks;
  for (EngineRequest& request : requests(6)) {
    sinks.push_back(std::make_shared<Collector>());
    if (sinks.size() == 1) sinks[0]->hold_at(1);
    ASSERT_TRUE(engine->submit(copy(request), sinks.back()).ok());
  }
  sinks[0]->release();
  for (auto& sink : sinks) EXPECT_EQ(sink->wait().usage.generated_tokens, 24u);
  // 24 tokens of six texts, and the steps that read them.
  EXPECT_LT(engine->stats().steps, 2 * 24u);
}

TEST_P(AdapterEngine, WhoLosesItsPlaceGoesOnAsIfNothingHadHappened) {
  auto crowd = requests(6);
  for (size_t i = 0; i < crowd.size(); ++i) {
    crowd[i].prompt.resize(5 + i);
    crowd[i].tokens_max = 110;
  }
  EngineStats stats;
  const std::vector<Bits> want = run_apart(crowd);
  EXPECT_EQ(run_shared({.layers = {.positions = 10 * 32}}, crowd, true, 2, &stats), want);
  EXPECT_GT(stats.preemptions, 0u);
}

TEST_P(AdapterEngine, EmbeddingsToo) {
  const auto embed = [&](const LoadedModel& model, const AdapterPtr& adapter) {
    Compute compute(2);
    LocalEngineOptions options;
    options.engine.adapters = table;
    const auto engine = make_local_engine(model, compute, options);
    std::vector<std::shared_ptr<Collector>> sinks;
    for (const AdapterPtr& of : {adapter, adapter == nullptr ? AdapterPtr() : adapters[2]}) {
      EngineRequest request = mixed_request(1);
      request.kind = RequestKind::kEmbed;
      request.adapter = of;
      sinks.push_back(std::make_shared<Collector>());
      EXPECT_TRUE(engine->submit(std::move(request), sinks.back()).ok());
    }
    for (auto& sink : sinks) sink->wait();
    return sinks[0]->wait().embedding;
  };
  const auto alone = load({specs[0]}, false);
  const auto want = embed(*alone, nullptr);
  EXPECT_EQ(embed(*shared, adapters[1]), want);
  EXPECT_NE(embed(*shared, nullptr), want);
}

// While others run. One that goes stays as long as its requests.
TEST_P(AdapterEngine, AdaptersComeAndGo) {
  Compute compute(2);
  LocalEngineOptions options;
  options.engine.adapters = table;
  const auto engine = make_local_engine(*shared, compute, options);
  auto all = requests(3);
  const std::vector<Bits> want = run_apart(all);
  auto first = std::make_shared<Collector>();
  first->hold_at(3);
  ASSERT_TRUE(engine->submit(copy(all[1]), first).ok());
  first->wait_for_tokens(3);
  const uint32_t number = adapters[1]->number;
  adapters[1].reset();
  all.clear();
  EXPECT_NE(table->find(number), nullptr) << "the request has it";
  first->release();
  first->wait();
  EXPECT_EQ(bits_of(*first), want[1]);
  engine->stop();
  EXPECT_EQ(table->find(number), nullptr);

  const auto next = make_local_engine(*shared, compute, options);
  const AdapterPtr again = table->add(*shared, specs[0], "one");
  EXPECT_EQ(again->number, number);
  EXPECT_EQ(table->add(*shared, specs[0], "one"), again) << "under two names it is one";
  const AdapterPtr other = table->add(*shared, specs[0], "");
  EXPECT_NE(other->number, number);
  std::vector<EngineRequest> both;
  for (const AdapterPtr& adapter : {again, other}) {
    both.push_back(mixed_request(0));
    both.back().adapter = adapter;
  }
  EXPECT_EQ(run(*next, both, true), (std::vector{want[1], want[1]}));
}

TEST_P(AdapterEngine, WhatIsNotTheEnginesIsRefused) {
  Compute compute(1);
  LocalEngineOptions options;
  const auto submit = [&](Engine& engine, const AdapterPtr& adapter) {
    EngineRequest request = mixed_request(0);
    request.adapter = adapter;
    return engine.submit(std::move(request), std::make_shared<Collector>()).status();
  };
  EXPECT_EQ(submit(*make_local_engine(*shared, compute, options), adapters[1]).code(), Errc::kUnsupported);
  options.engine.adapters = std::make_shared<AdapterTable>();
  EXPECT_EQ(submit(*make_local_engine(*shared, compute, options), adapters[1]).code(),
            Errc::kInvalidArgument);

  // Layers trust nobody.
  LocalChain chain(*shared, compute, {.positions = 64, .adapters = table});
  ASSERT_TRUE(chain.reset(1, {}));
  StepRequest step{
      .epoch = 1, .commands = {{KvCommand::Kind::kPlace, 0}}, .rows = {{5, 0, 0, RowOutput::kLogits}}};
  step.rows[0].adapter = 99;
  EXPECT_THAT(chain.submit(step).text(), ::testing::HasSubstr("adapter 99 is not known"));
  step.rows = {{5, 0, 0, RowOutput::kNone}, {5, 0, 1, RowOutput::kLogits}};
  step.rows[0].adapter = adapters[1]->number;
  EXPECT_THAT(chain.submit(step).text(), ::testing::HasSubstr("names adapters"));

  model::Adapter wrong;
  wrong.path = "wrong";
  wrong.pairs.push_back(
      {"blk.0.attn_norm.weight", Tensor::zeros(DType::kF32, {2, 256}), Tensor::zeros(DType::kF32, {1, 2})});
  try {
    table->add(*shared, wrong, "");
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("is not a matrix that adapters can add to"));
  }
}

std::string name_of(const ::testing::TestParamInfo<Kind>& test) {
  std::string name(test.param.architecture);
  std::ranges::replace(name, '-', '_');
  return name + "_" + std::string(dtype_name(test.param.type));
}

std::vector<Kind> all_kinds() {
  std::vector<Kind> kinds = {{"llama", DType::kF32}, {"llama", DType::kQ4_0}, {"llama", DType::kQ4_K}};
  for (const model::RandomArchitecture& row : model::random_architectures())
    kinds.push_back({row.name, DType::kQ8_0});
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Kinds, AdapterBatch, ::testing::ValuesIn(all_kinds()), name_of);
INSTANTIATE_TEST_SUITE_P(Kinds, AdapterEngine,
                         ::testing::Values(Kind{"llama", DType::kQ8_0}, Kind{"qwen35moe", DType::kQ4_0}),
                         name_of);

}  // namespace
}  // namespace butterfly::runtime
