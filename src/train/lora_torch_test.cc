// Adapters against PyTorch from the same weights: gradients of the first step and losses of some, on texts
// and on pairs of answers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sstream>

#include "base/check.h"
#include "base/file_text.h"
#include "base/random_stream.h"
#include "base/rng.h"
#include "base/testing/source_tree.h"
#include "base/testing/temp_dir.h"
#include "kernels/quant/quant.h"
#include "model/adapter/adapter_write.h"
#include "model/adapter/fresh_adapter.h"
#include "model/arch/adaptable.h"
#include "model/tokenizer/tokenizer.h"
#include "train/networks/lora_transformer.h"
#include "train/testing/npy.h"
#include "train/testing/python.h"
#include "train/trainer/trainer.h"

namespace butterfly::train {
namespace {

constexpr size_t kLength = 12, kBatch = 2, kSteps = 5;

struct Sample {
  explicit Sample(DType dtype) {
    model::RandomModelOptions sizes;
    sizes.vocabulary_size = 272;
    sizes.context_length = 32;
    sizes.embedding_length = sizes.feed_forward_length = 256;
    sizes.block_count = 2;
    sizes.head_count = 4;
    sizes.head_count_kv = 2;
    sizes.matrix_type = sizes.vocabulary_type = dtype;
    model::write_random_model(folder / "base.gguf", sizes);
    base.emplace(model::open_model(folder / "base.gguf"));
    for (const model::NamedTensor& info : base->tensors()) {
      const Tensor stored = base->tensor(info.name);
      const Tensor floats = Tensor::zeros(DType::kF32, stored.shape());
      kernels::to_float(stored.dtype(), stored.raw(), floats.data<float>(), info.count());
      testing::write_npy(folder / (info.name + ".npy"), floats);
    }
    for (size_t i = 0; i < kSteps * kBatch * kLength; ++i) {
      tokens.push_back(static_cast<int32_t>(random_u64(5, 1, i) % 64));
      targets.push_back(i % kLength < 4 ? -1 : static_cast<int32_t>(random_u64(5, 1, i + 1) % 64));
    }
    write("tokens", tokens);
    write("targets", targets);
  }
  void write(const std::string& name, const std::vector<int32_t>& values) {
    const Tensor floats = Tensor::zeros(DType::kF32, {kSteps * kBatch, kLength});
    std::copy(values.begin(), values.end(), floats.data<float>());
    testing::write_npy(folder / (name + ".npy"), floats);
  }
  // An item is a sequence, or a pair of them.
  MicroBatch batch(size_t step, bool pairs) const {
    const size_t at = step * kBatch * kLength, count = kBatch * kLength;
    return {.tokens = std::span(tokens).subspan(at, count),
            .pixels = {},
            .targets = std::span(targets).subspan(at, count),
            .counted = pairs ? kBatch / 2 : 0};
  }
  butterfly::testing::TempDir folder;
  std::optional<model::ModelFile> base;
  std::vector<int32_t> tokens, targets;
};

// Largest relative distance of gradients, and of losses.
struct Distance {
  double gradients = 0, losses = 0;
};

void compare(DType dtype, float beta, const Distance& allowed) {
  Sample sample(dtype);
  model::Adapter adapter =
      model::fresh_adapter(*sample.base, {.rank = 4,
                                          .alpha = 8,
                                          .modules = {"all-linear"},
                                          .takes = model::adaptable_tensors(*sample.base),
                                          .seed = 3});
  for (model::LoraPair& pair : adapter.pairs)
    for (int64_t i = 0; i < pair.b.count(); ++i)
      pair.b.data<float>()[i] =
          0.05f * random_normal(9, random_stream(pair.target), static_cast<uint64_t>(i));
  LoraTransformer network(*sample.base, std::move(adapter), {.length = kLength}, 0, beta);
  for (const auto& [name, tensor] : network.weights())
    testing::write_npy(sample.folder / (name + ".npy"), tensor);
  Trainer trainer(network, {.optimizer = {.name = "adamw"}, .schedule = {.lr = 1e-3}});
  // The second sequence of a pair begins at position 0 again.
  if (beta > 0)
    for (size_t i = kLength; i < sample.tokens.size(); i += 2 * kLength) sample.tokens[i] = ~sample.tokens[i];
  const MicroBatch first = sample.batch(0, beta > 0);
  const LeafSums sums = trainer.leaves(step_shape({&first, 1}), 0, {&first, 1});
  for (size_t i = 0; i < trainer.layout().size(); ++i) {
    const graph::Parameter& parameter = trainer.layout().parameter(i);
    const Tensor gradient = Tensor::zeros(DType::kF32, parameter.value.shape());
    std::copy_n(sums.subtrees[0].sum.values + trainer.layout().offset(i), trainer.layout().count(i),
                gradient.data<float>());
    testing::write_npy(sample.folder / ("grad." + parameter.name + ".npy"), gradient);
  }
  const auto torch = testing::run_python(
      fmt::format("bench/train/lora_torch.py --beta {} --weights {}", beta, sample.folder.path().string()));
  if (torch.skipped) GTEST_SKIP() << "python3-torch is not installed: " << torch.text;
  ASSERT_TRUE(torch.good) << torch.text;
  std::istringstream lines(torch.text);
  std::string word;
  double gradients = 0;
  ASSERT_TRUE(lines >> word >> gradients) << torch.text;
  EXPECT_LT(gradients, allowed.gradients) << dtype_name(dtype);
  for (size_t step = 0; step < kSteps; ++step) {
    size_t number = 0;
    double loss = 0, seconds = 0;
    ASSERT_TRUE(lines >> number >> loss >> seconds) << torch.text;
    const MicroBatch batch = sample.batch(step, beta > 0);
    EXPECT_NEAR(trainer.step({&batch, 1}).loss, loss, allowed.losses * loss)
        << dtype_name(dtype) << " step " << step;
  }
}

// Windows of a real text, some to learn from and some to check.
struct Windows {
  static constexpr size_t kTokens = 64, kRows = 8, kRun = 60, kValid = 32;
  Windows(const model::Tokenizer& tokenizer, const std::filesystem::path& text,
          const std::filesystem::path& folder) {
    const std::vector<int32_t> ids = tokenizer.encode(read_text_file(text).substr(0, 400'000));
    const size_t rows = kRun * kRows + kValid;
    BF_CHECK(ids.size() > rows * kTokens) << ids.size() << " tokens are too few";
    tokens.assign(ids.begin(), ids.begin() + rows * kTokens);
    targets.assign(ids.begin() + 1, ids.begin() + rows * kTokens + 1);
    const auto write = [&](const char* name, std::span<const int32_t> values) {
      const Tensor floats = Tensor::zeros(
          DType::kF32, {static_cast<int64_t>(values.size() / kTokens), static_cast<int64_t>(kTokens)});
      std::copy(values.begin(), values.end(), floats.data<float>());
      testing::write_npy(folder / (std::string(name) + ".npy"), floats);
    };
    const size_t learned = kRun * kRows * kTokens;
    write("tokens", std::span(tokens).first(learned));
    write("targets", std::span(targets).first(learned));
    write("valid_tokens", std::span(tokens).subspan(learned));
    write("valid_targets", std::span(targets).subspan(learned));
  }
  MicroBatch batch(size_t step) const { return rows(step * kRows, kRows); }
  MicroBatch valid() const { return rows(kRun * kRows, kValid); }
  MicroBatch rows(size_t begin, size_t count) const {
    return {.tokens = std::span(tokens).subspan(begin * kTokens, count * kTokens),
            .pixels = {},
            .targets = std::span(targets).subspan(begin * kTokens, count * kTokens)};
  }
  std::vector<int32_t> tokens, targets;
};

// A small model learns another text than it was made from. PyTorch learns the same in f32 from the same
// start, and reads what was learned as PEFT's adapter.
void learn_real_text(const std::string& type, double allowed_learned, double allowed_read) {
  const std::filesystem::path data = source_path("../shared/data");
  const std::filesystem::path folder = data / "models/tinystories-656k";
  const std::filesystem::path text = data / "datasets/text/tinyshakespeare.txt";
  if (!std::filesystem::exists(folder) || !std::filesystem::exists(text)) GTEST_SKIP() << "no test data";
  const model::ModelFile base = model::open_model(folder / ("tinystories-656k-" + type + ".gguf"));
  const auto tokenizer = model::make_tokenizer(base.metadata());
  butterfly::testing::TempDir dir;
  const Windows windows(*tokenizer, text, dir.path());
  LoraTransformer network(base,
                          model::fresh_adapter(base, {.rank = 8,
                                                      .alpha = 16,
                                                      .modules = {"all-linear"},
                                                      .takes = model::adaptable_tensors(base),
                                                      .seed = 3}),
                          {.length = Windows::kTokens}, 0);
  constexpr double kRate = 2e-3;
  Trainer trainer(network, {.optimizer = {.name = "adamw"}, .schedule = {.lr = kRate}});
  const MicroBatch valid = windows.valid();
  const double before = trainer.evaluate({&valid, 1}).loss;
  model::write_peft_adapter(dir / "start", network.adapter(), base, {});
  for (size_t step = 0; step < Windows::kRun; ++step) {
    const MicroBatch batch = windows.batch(step);
    trainer.step({&batch, 1});
  }
  const double after = trainer.evaluate({&valid, 1}).loss;
  model::write_peft_adapter(dir / "end", network.adapter(), base, {});
  const auto torch = testing::run_python(
      fmt::format("tests/torch/peft_llama.py --model {0} --windows {1} --learn {1}/start --adapter {1}/end "
                  "--batch {2} --lr {3}",
                  folder.string(), dir.path().string(), Windows::kRows, kRate));
  if (torch.skipped) GTEST_SKIP() << "python3-torch is not installed: " << torch.text;
  ASSERT_TRUE(torch.good) << torch.text;
  std::istringstream lines(torch.text);
  std::string word;
  double of_base = 0, of_learned = 0, of_adapter = 0;
  ASSERT_TRUE(lines >> word >> of_base >> word >> of_learned >> word >> of_adapter) << torch.text;
  fmt::print("{}: {:.4f} -> {:.4f}; PyTorch {:.4f} -> {:.4f}, with what was learned here {:.4f}\n", type,
             before, after, of_base, of_learned, of_adapter);
  EXPECT_LT(after, 0.9 * before) << "it learned";
  EXPECT_NEAR(after, of_learned, allowed_learned * of_learned) << type;
  EXPECT_NEAR(after, of_adapter, allowed_read * of_adapter) << type;
}

// In f32 the same but for the order of sums; else PyTorch has the weights that the file was quantised from.
TEST(LoraTorch, RealTextIsLearnedAsInPyTorchAndReadAsPeft) {
  learn_real_text("f32", 2e-3, 1e-5);
  learn_real_text("q8_0", 0.02, 0.02);
  learn_real_text("q4_0", 0.02, 0.05);
}

// Quantised weights multiply rows that were rounded to 8 bits: as far apart as that is.
TEST(LoraTorch, GradientsAndLossesAreThoseOfPyTorch) {
  compare(DType::kF32, 0, {1e-4, 1e-4});
  compare(DType::kQ8_0, 0, {0.05, 0.01});
  compare(DType::kQ4_0, 0, {0.05, 0.01});
}

TEST(LoraTorch, PreferencesAreThoseOfPyTorch) {
  compare(DType::kF32, 0.1f, {1e-4, 1e-4});
  compare(DType::kQ8_0, 0.1f, {0.05, 0.02});  // sums of differences of rounded losses
}

}  // namespace
}  // namespace butterfly::train
