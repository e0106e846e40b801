// Layers that several members compute together have the bits of one machine: for any number of unequal
// members, every architecture, weight types of every kind, prompts, single tokens, batches and adapters.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <thread>

#include "base/rng.h"
#include "base/testing/temp_dir.h"
#include "base/testing/test_name.h"
#include "model/arch/decoder.h"
#include "model/formats/gguf_writer.h"
#include "model/sampling/sampler.h"
#include "runtime/testing/inproc_exchange.h"
#include "runtime/testing/models.h"

namespace butterfly::runtime {
namespace {

using model::GroupShare;
using model::LayerShare;
using model::UnitRange;
using testing::InprocGroup;
using testing::some_tokens;

// Where members are cut, of eight units, for everything; some have nothing.
GroupShare group_of(const std::vector<uint32_t>& cuts) {
  GroupShare group;
  for (size_t i = 0; i <= cuts.size(); ++i) {
    const UnitRange range{i == 0 ? 0 : cuts[i - 1], i == cuts.size() ? 8 : cuts[i], 8};
    group.members.push_back({range, range, range, range});
  }
  return group;
}

// Two to five members: equal as far as eight units allow, unequal, and with one that has nothing.
const std::vector<std::vector<uint32_t>> kCuts = {{4},       {3},          {0},         {3, 5},
                                                  {1, 3, 4}, {2, 3, 5, 6}, {1, 2, 3, 7}};

// Columns of attention output and of feed-forward down that make eight shards, whose cuts fall into heads.
model::RandomModelOptions options_of(std::string_view architecture, DType type) {
  model::RandomModelOptions options = testing::small_options(architecture, type);
  const bool wide = kernels::shard_unit(type) == 256;
  options.embedding_length = wide ? 256 : 640;
  options.head_count = wide ? 16 : 8;
  options.head_length = architecture == "gpt2" ? 0 : wide ? 144 : 80;  // gpt2: 80, by its embedding
  options.feed_forward_length = wide ? 2304 : 704;
  options.expert_count = 6;
  return options;
}

struct ModelOnDisk {
  ModelOnDisk(std::string_view architecture, DType type) {
    write_random_model(path, options_of(architecture, type));
  }
  butterfly::testing::TempDir folder;
  std::filesystem::path path = folder.path() / "model.gguf";
};

struct Case {
  std::vector<model::AdapterSpec> adapters = {};
  DType kv_type = DType::kF16;
  size_t threads = 1;
  size_t rows_max = 64;
};

// A prompt in two pieces, single tokens, and a batch of two texts: logits of all rows at the first member.
std::vector<uint32_t> logit_bits(CachedLayers& layers) {
  const auto tokens = some_tokens(40, 320);
  std::vector<uint32_t> bits;
  const auto run = [&](const std::vector<BatchRow>& rows) {
    for (const float logit : layers.run(rows)) bits.push_back(std::bit_cast<uint32_t>(logit));
  };
  uint32_t position = 0;
  for (const size_t piece : {17, 6, 1, 1}) {
    std::vector<BatchRow> rows;
    for (size_t i = 0; i < piece; ++i, ++position)
      rows.push_back({tokens[position], 0, position, i % 2 == 0});
    run(rows);
  }
  std::vector<BatchRow> together = {{tokens[position], 0, position, true}};
  for (uint32_t i = 0; i < 9; ++i) together.push_back({tokens[30 + i], 1, i, i > 6});
  run(together);
  run({{tokens[position + 1], 0, position + 1, true}, {tokens[39], 1, 9, true}});
  return bits;
}

struct Member {
  Member(const std::filesystem::path& path, GroupShare group, size_t self, const Case& what)
      : pool(what.threads) {
    group.self = self;
    LoadOptions options;
    options.with_tokenizer = false;
    options.adapters = what.adapters;
    options.group = group;
    model = load_model(path, pool, options);
    layers = std::make_unique<CachedLayers>(*model, pool,
                                            CachedLayersOptions{.positions = 2 * what.rows_max,
                                                                .sequences = 2,
                                                                .kv_type = what.kv_type,
                                                                .rows_max = what.rows_max});
  }
  ThreadPool pool;
  std::unique_ptr<LoadedModel> model;
  std::unique_ptr<CachedLayers> layers;
};

std::vector<uint32_t> whole_bits(const std::filesystem::path& path, const Case& what = {}) {
  Member alone(path, {}, 0, what);
  return logit_bits(*alone.layers);
}

// The members of a loaded group, each in its thread.
struct Group {
  Group(const std::filesystem::path& path, const GroupShare& group, const Case& what = {})
      : exchange(group.members.size()) {
    for (size_t i = 0; i < group.members.size(); ++i) {
      members.push_back(std::make_unique<Member>(path, group, i, what));
      members.back()->layers->set_exchange(&exchange.end(i));
    }
  }
  std::vector<uint32_t> bits() {
    std::vector<uint32_t> first;
    std::vector<std::thread> threads;
    for (size_t i = 1; i < members.size(); ++i)
      threads.emplace_back([this, i] { logit_bits(*members[i]->layers); });
    first = logit_bits(*members[0]->layers);
    for (std::thread& thread : threads) thread.join();
    return first;
  }
  InprocGroup exchange;
  std::vector<std::unique_ptr<Member>> members;
};

std::string words(const std::vector<uint32_t>& cuts) {
  return fmt::format("cut at {}", fmt::join(cuts, ", "));
}

// What this file proves anything with: every row-parallel product of these models has eight shards.
void expect_eight_shards(const LoadedModel& model) {
  const auto& decoder = dynamic_cast<const model::Decoder&>(*model.network);
  const auto shards = [](DType type, size_t cols) {
    return kernels::Shards(kernels::shard_unit(type), cols).count();
  };
  for (const nn::TransformerBlock& block : decoder.blocks) {
    const nn::Linear& out = block.mixer_out();
    if (!block.mixer_name().empty()) {
      EXPECT_EQ(shards(out.weight.packed.dtype(), out.in()), 8u);
    }
    if (block.mlp_name().empty()) continue;
    const auto* moe = std::get_if<nn::Moe>(&block.mlp);
    if (moe != nullptr) {
      EXPECT_EQ(shards(moe->down.experts[0].dtype(), moe->down.experts[0].cols()), 8u);
      EXPECT_EQ(moe->down.experts.size(), 6u);
    }
    const nn::Mlp* mlp = moe == nullptr ? &std::get<nn::Mlp>(block.mlp)
                         : moe->shared  ? &*moe->shared
                                        : nullptr;
    if (mlp != nullptr) {
      EXPECT_EQ(shards(mlp->down.weight.packed.dtype(), mlp->down.in()), 8u);
    }
  }
}

class SharedArchitecture : public ::testing::TestWithParam<std::string_view> {};

TEST_P(SharedArchitecture, AnyMembersGiveTheBitsOfOneMachine) {
  ModelOnDisk model(GetParam(), DType::kQ8_0);
  expect_eight_shards(*Member(model.path, {}, 0, {}).model);
  const auto want = whole_bits(model.path);
  for (const auto& cuts : {kCuts[1], kCuts[2], kCuts[4], kCuts[5]})
    EXPECT_EQ(Group(model.path, group_of(cuts)).bits(), want) << words(cuts);
}

// SharedType has the other types; the search for their scales would take most of the time here.
TEST_P(SharedArchitecture, SeveralThreadsAndAnotherCacheGiveThemToo) {
  ModelOnDisk model(GetParam(), DType::kQ8_0);
  const Case what{.adapters = {}, .kv_type = DType::kF32, .threads = 2};
  const auto want = whole_bits(model.path, {.adapters = {}, .kv_type = DType::kF32});
  EXPECT_EQ(Group(model.path, group_of({3}), what).bits(), want);
  EXPECT_EQ(Group(model.path, group_of({2, 7}), what).bits(), want);
}

std::vector<std::string_view> architecture_names() {
  std::vector<std::string_view> names;
  for (const model::RandomArchitecture& row : model::random_architectures()) names.push_back(row.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Architectures, SharedArchitecture, ::testing::ValuesIn(architecture_names()),
                         [](const auto& test) { return butterfly::testing::test_name(test.param); });

// Two members compute long pieces in two halves, whose exchanges are under way while the other half computes;
// rows whose logits are wanted early keep a piece whole. More members finish slices of long sums for each
// other instead.
class SharedPrompts : public ::testing::TestWithParam<std::string_view> {};

TEST_P(SharedPrompts, InHalvesOrSlicesHaveTheBitsOfOneMachine) {
  ModelOnDisk model(GetParam(), DType::kQ8_0);
  const auto tokens = some_tokens(400, 320);
  const auto run = [&](CachedLayers& layers, const std::vector<uint32_t>& wanted_of_first) {
    std::vector<uint32_t> bits;
    uint32_t position = 0;
    for (const uint32_t piece : {200u, 1u, 131u}) {
      std::vector<BatchRow> rows;
      for (uint32_t i = 0; i < piece; ++i, ++position) {
        const bool wanted = i + 1 == piece || (piece == 200 && std::ranges::count(wanted_of_first, i) > 0);
        rows.push_back({tokens[position], 0, position, wanted});
      }
      for (const float logit : layers.run(rows)) bits.push_back(std::bit_cast<uint32_t>(logit));
    }
    return bits;
  };
  const Case what{.threads = 2, .rows_max = 256};
  Member alone(model.path, {}, 0, what);
  const size_t blocks = alone.model->config.layers;
  size_t sums = blocks;  // attention's; rows of experts are no sums
  for (const nn::TransformerBlock& block :
       dynamic_cast<const model::Decoder&>(*alone.model->network).blocks) {
    const auto* moe = std::get_if<nn::Moe>(&block.mlp);
    sums += moe == nullptr || moe->shared;
  }
  struct Wanted {
    std::vector<uint32_t> rows;
    size_t turns;  // pieces in halves
  };
  for (const Wanted& wanted : {Wanted{{}, 2}, Wanted{{70, 150}, 2}, Wanted{{3}, 1}}) {
    const auto want = run(*std::make_unique<Member>(model.path, GroupShare{}, 0, what)->layers, wanted.rows);
    for (const auto& cuts : {kCuts[1], kCuts[3], kCuts[4]}) {
      Group group(model.path, group_of(cuts), what);
      std::vector<std::thread> others;
      for (size_t i = 1; i < group.members.size(); ++i)
        others.emplace_back([&, i] { run(*group.members[i]->layers, wanted.rows); });
      EXPECT_EQ(run(*group.members[0]->layers, wanted.rows), want) << words(cuts);
      for (std::thread& other : others) other.join();
      EXPECT_EQ(group.exchange.rounds(),
                3 * (2 * blocks + 1) + (cuts.size() == 1 ? wanted.turns * 2 * blocks : 2 * sums));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, SharedPrompts,
                         ::testing::Values("llama", "gemma3", "qwen3moe", "gpt-oss", "deepseek2"),
                         [](const auto& test) { return butterfly::testing::test_name(test.param); });

class SharedType : public ::testing::TestWithParam<DType> {};

TEST_P(SharedType, AnyMembersGiveTheBitsOfOneMachine) {
  ModelOnDisk model("llama", GetParam());
  expect_eight_shards(*Member(model.path, {}, 0, {}).model);
  const auto want = whole_bits(model.path);
  for (const auto& cuts : {kCuts[1], kCuts[4], kCuts[6]})
    EXPECT_EQ(Group(model.path, group_of(cuts)).bits(), want) << words(cuts);
}

INSTANTIATE_TEST_SUITE_P(Types, SharedType,
                         ::testing::Values(DType::kF32, DType::kF16, DType::kBF16, DType::kQ4_0, DType::kQ4_1,
                                           DType::kQ5_0, DType::kQ5_1, DType::kQ2_K, DType::kQ4_K,
                                           DType::kQ6_K, DType::kMXFP4),
                         [](const auto& test) { return std::string(dtype_name(test.param)); });

// Units of their own for heads, columns, experts and vocabulary, in another order than the members'.
TEST(SharedLayers, KindsAreSharedApartAndInAnyOrder) {
  ModelOnDisk model("qwen35moe", DType::kQ8_0);
  const auto want = whole_bits(model.path);
  GroupShare group;
  group.members = {{{1, 5, 5}, {0, 8, 16}, {0, 1, 3}, {3, 9, 9}},
                   {{0, 1, 5}, {9, 16, 16}, {1, 1, 3}, {0, 3, 9}},
                   {{5, 5, 5}, {8, 9, 16}, {1, 3, 3}, {3, 3, 9}}};
  EXPECT_EQ(Group(model.path, group).bits(), want);
}

// Low-rank additions to every matrix that takes them, among them the row-parallel ones, those of experts and
// the head.
class SharedAdapters : public ::testing::TestWithParam<std::string_view> {};
INSTANTIATE_TEST_SUITE_P(Kinds, SharedAdapters,
                         ::testing::Values("llama", "qwen35", "qwen3next", "lfm2", "nemotron_h", "gpt-oss",
                                           "gemma4moe"),
                         [](const auto& test) { return butterfly::testing::test_name(test.param); });

TEST_P(SharedAdapters, TravelWithTheSums) {
  ModelOnDisk model(GetParam(), DType::kQ8_0);
  const model::ModelFile file = model::open_model(model.path);
  model::Metadata metadata;
  metadata.set("general.architecture", file.architecture());
  metadata.set("general.type", std::string("adapter"));
  metadata.set("adapter.type", std::string("lora"));
  metadata.set("adapter.lora.alpha", 10.0f);
  const auto adapter = [&](const std::string& name, int64_t rank) {
    model::GgufWriter writer(metadata);
    uint64_t stream = static_cast<uint64_t>(rank);
    const auto add = [&](const std::string& tensor, const Shape& shape) {
      Tensor values = Tensor::zeros(DType::kF32, shape);
      ++stream;
      for (int64_t i = 0; i < values.count(); ++i)
        values.data<float>()[i] = 0.1f * random_normal(11, stream, static_cast<uint64_t>(i));
      writer.add_tensor(tensor, values);
    };
    for (const model::NamedTensor& tensor : file.tensors()) {
      const Shape& shape = tensor.shape;
      if (shape.rank() < 2 || tensor.name == "token_embd.weight" || tensor.dtype != DType::kQ8_0) continue;
      if (shape.rank() == 3) {
        add(tensor.name + ".lora_a", {shape[0], rank, shape[2]});
        add(tensor.name + ".lora_b", {shape[0], shape[1], rank});
      } else {
        add(tensor.name + ".lora_a", {rank, shape[1]});
        add(tensor.name + ".lora_b", {shape[0], rank});
      }
    }
    writer.write(model.folder.path() / name);
    return model::AdapterSpec{model.folder.path() / name, 0.5f};
  };
  const Case what{.adapters = {adapter("a.gguf", 5), adapter("b.gguf", 16)}};
  const auto want = whole_bits(model.path, what);
  EXPECT_NE(want, whole_bits(model.path));
  for (const auto& cuts : kCuts)
    EXPECT_EQ(Group(model.path, group_of(cuts), what).bits(), want) << words(cuts);
}

// Where candidates are enough, members send no more, and everything that is chosen from them is the same.
TEST(SharedLayers, CandidatesChooseTheSameTokens) {
  ModelOnDisk model("llama", DType::kQ8_0);
  const auto tokens = some_tokens(24, 320);
  const auto run = [&](CachedLayers& layers, int32_t candidates) {
    std::vector<BatchRow> rows;
    for (uint32_t i = 0; i < 24; ++i) rows.push_back({tokens[i], 0, i, i % 3 != 1, candidates});
    const auto logits = layers.run(rows);
    return std::vector<float>(logits.begin(), logits.end());
  };
  Member alone(model.path, {}, 0, {});
  const std::vector<float> whole = run(*alone.layers, 0);
  for (const auto& cuts : {kCuts[0], kCuts[2], kCuts[3], kCuts[6]})
    for (const int32_t k : {1, 7, 40, 300}) {
      Group group(model.path, group_of(cuts));
      std::vector<std::thread> others;
      for (size_t i = 1; i < group.members.size(); ++i)
        others.emplace_back([&, i] { run(*group.members[i]->layers, k); });
      const std::vector<float> found = run(*group.members[0]->layers, k);
      for (std::thread& other : others) other.join();
      ASSERT_EQ(found.size(), whole.size());
      for (size_t row = 0; row < found.size() / 320; ++row)
        for (const float temperature : {0.0f, 1.5f}) {
          model::SamplerSettings settings;
          settings.temperature = temperature;
          settings.top_k = k;
          settings.seed = row;
          model::Sampler one(settings), other(settings);
          ASSERT_EQ(one.candidates_max(), temperature > 0 ? static_cast<size_t>(k) : 1u);
          const std::span<const float> want(&whole[row * 320], 320), got(&found[row * 320], 320);
          EXPECT_EQ(other.sample(got, {}, row), one.sample(want, {}, row)) << words(cuts) << ", " << k;
          ASSERT_EQ(other.candidates().size(), one.candidates().size());
          for (size_t i = 0; i < one.candidates().size(); ++i) {
            EXPECT_EQ(other.candidates()[i].id, one.candidates()[i].id);
            EXPECT_EQ(other.probability(other.candidates()[i]), one.probability(one.candidates()[i]));
          }
        }
      const size_t of_a_row = k < 80 ? 2 * static_cast<size_t>(k) : 160;  // of half the vocabulary
      if (cuts == kCuts[0]) {
        EXPECT_EQ(group.exchange.bytes_sent(1), 4 * (24 * 640 * 2 * 2 + 16 * of_a_row));
      }
    }
}

// Two exchanges a layer and one for logits, which go to the first member alone; memory goes with the share.
TEST(SharedLayers, CostWhatTheyShould) {
  ModelOnDisk model("llama", DType::kQ8_0);
  Member alone(model.path, {}, 0, {});
  Group group(model.path, group_of({4}));
  const size_t dim = 640, layers = 2, rows = 17 + 6 + 1 + 1 + 10 + 2, runs = 6;
  group.bits();
  EXPECT_EQ(group.exchange.rounds(), runs * (2 * layers + 1));
  const size_t selected = 9 + 3 + 1 + 1 + 3 + 2, half_head = 160;
  EXPECT_EQ(group.exchange.bytes_sent(1), 4 * (rows * dim * 2 * layers + selected * half_head));
  const uint64_t table = 320 * dim / 32 * 34;  // the embedding is everywhere
  for (const auto& member : group.members) {
    EXPECT_LT(member->model->resident_bytes - table, (alone.model->resident_bytes - table) * 53 / 100)
        << "six of eleven units";
    EXPECT_EQ(member->layers->cache().bytes(), alone.layers->cache().bytes() / 2);
  }
}

// One KV head for all: everybody has it. And a member without a shard has no keys and values at all.
TEST(SharedLayers, KeysAndValuesGoWithTheHeads) {
  model::RandomModelOptions options = options_of("llama", DType::kQ8_0);
  options.head_count_kv = 1;
  butterfly::testing::TempDir folder;
  const auto path = folder.path() / "model.gguf";
  write_random_model(path, options);
  const auto want = whole_bits(path);
  Group group(path, group_of({2, 2, 5}));
  EXPECT_EQ(group.bits(), want);
  std::vector<size_t> kv_heads;
  for (const auto& member : group.members) kv_heads.push_back(member->model->config.states[0].kv_heads);
  EXPECT_EQ(kv_heads, (std::vector<size_t>{1, 0, 1, 1}));
}

// Recurrent layers whose heads and groups of heads lie in every way to the cuts.
struct Recurrent {
  std::string_view architecture;
  uint32_t head_count_kv;  // key heads, or groups of heads
};
class SharedRecurrent : public ::testing::TestWithParam<Recurrent> {};

TEST_P(SharedRecurrent, AnyMembersGiveTheBitsOfOneMachine) {
  const auto& [architecture, head_count_kv] = GetParam();
  model::RandomModelOptions options = options_of(architecture, DType::kQ8_0);
  options.head_count_kv = head_count_kv;
  butterfly::testing::TempDir folder;
  const auto path = folder.path() / "model.gguf";
  write_random_model(path, options);
  expect_eight_shards(*Member(path, {}, 0, {}).model);
  const auto want = whole_bits(path);
  for (const auto& cuts : kCuts) EXPECT_EQ(Group(path, group_of(cuts)).bits(), want) << words(cuts);
  EXPECT_EQ(Group(path, group_of({3, 5}), {.threads = 2}).bits(), want);
}

INSTANTIATE_TEST_SUITE_P(Kinds, SharedRecurrent,
                         ::testing::Values(Recurrent{"qwen35", 1}, Recurrent{"qwen35", 4},
                                           Recurrent{"qwen35", 8}, Recurrent{"qwen3next", 1},
                                           Recurrent{"qwen3next", 4}, Recurrent{"qwen3next", 8},
                                           Recurrent{"nemotron_h", 1}, Recurrent{"nemotron_h", 4},
                                           Recurrent{"nemotron_h", 8}),
                         [](const auto& test) {
                           return fmt::format("{}_{}", butterfly::testing::test_name(test.param.architecture),
                                              test.param.head_count_kv);
                         });

// What a member keeps of a recurrent layer: its heads' matrices and channels; one without a shard nothing.
TEST(SharedLayers, RecurrentStatesGoWithTheHeads) {
  const auto states = [](std::string_view architecture, uint32_t head_count_kv,
                         const std::vector<uint32_t>& cuts) {
    model::RandomModelOptions options = options_of(architecture, DType::kQ8_0);
    options.head_count_kv = head_count_kv;
    butterfly::testing::TempDir folder;
    const auto path = folder.path() / "model.gguf";
    write_random_model(path, options);
    std::vector<size_t> floats = {Member(path, {}, 0, {}).model->config.states[0].state_floats};
    const GroupShare group = group_of(cuts);
    for (size_t i = 0; i < group.members.size(); ++i) {
      const Member member(path, group, i, {});
      floats.push_back(member.model->config.states[0].state_floats);
    }
    return floats;
  };
  // Eight value heads and eight key heads of 80; three rows of the convolution are kept.
  const auto delta = [](size_t values, size_t keys) {
    return values * 80 * 80 + 3 * 80 * (values + 2 * keys);
  };
  EXPECT_EQ(states("qwen35", 8, {4, 4}), (std::vector<size_t>{delta(8, 8), delta(4, 4), 0, delta(4, 4)}));
  EXPECT_EQ(states("qwen35", 2, {4}), (std::vector<size_t>{delta(8, 2), delta(4, 2), delta(4, 2)}));
  EXPECT_EQ(states("qwen3next", 2, {4}), (std::vector<size_t>{delta(8, 2), delta(4, 1), delta(4, 1)}));
  // 640 channels; two rows.
  EXPECT_EQ(states("lfm2", 2, {4, 4}), (std::vector<size_t>{1280, 640, 0, 640}));
  // Eight groups of five heads of 32, states of 16; three rows.
  const auto mamba = [](size_t groups) { return groups * (5 * 32 * 16 + 3 * (5 * 32 + 2 * 16)); };
  EXPECT_EQ(states("nemotron_h", 8, {4, 4}), (std::vector<size_t>{mamba(8), mamba(4), 0, mamba(4)}));
}

}  // namespace
}  // namespace butterfly::runtime
