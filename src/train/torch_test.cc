// Against PyTorch from the same weights: ten steps of a small GPT-2, five of a convolutional network, and a
// GPT-2 that learns Shakespeare's letters.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/testing/source_tree.h"
#include "base/testing/temp_dir.h"
#include "train/data/batch_order.h"
#include "train/data/token_dataset.h"
#include "train/networks/image_network.h"
#include "train/testing/gpt2.h"
#include "train/testing/npy.h"
#include "train/testing/python.h"
#include "train/trainer/trainer.h"

namespace butterfly::train {
namespace {

void dump(const TrainableNetwork& network, const std::filesystem::path& folder) {
  for (const auto& [name, tensor] : network.weights()) testing::write_npy(folder / (name + ".npy"), tensor);
}

TEST(Torch, TenLossesOfGpt2AreEqual) {
  const testing::Gpt2 gpt;
  const butterfly::testing::TempDir folder;
  Transformer network(gpt.untrained(), {.length = gpt.length});
  dump(network, folder.path());
  const auto torch = testing::run_python(
      "bench/train/gpt2_torch.py --layers 2 --dim 64 --heads 4 --vocab 256 --context 64 --batch 4 --length "
      "32 "
      "--steps 10 --lr 1e-3 --weights " +
      folder.path().string());
  if (torch.skipped) GTEST_SKIP() << "python3-torch is not installed: " << torch.text;
  ASSERT_TRUE(torch.good) << torch.text;
  Trainer trainer(network, {.optimizer = {.weight_decay = 0.01}, .schedule = {.lr = 1e-3}});
  std::istringstream lines(torch.text);
  for (size_t step = 0; step < 10; ++step) {
    size_t number = 0;
    double loss = 0, seconds = 0;
    ASSERT_TRUE(lines >> number >> loss >> seconds) << torch.text;
    ASSERT_EQ(number, step);
    const testing::Gpt2Tokens data(gpt, step);
    const MicroBatch batch = data.batch();
    EXPECT_NEAR(trainer.step({&batch, 1}).loss, loss, 1e-4) << "step " << step;
  }
}

// Same weights, same order of windows, same steps: the validation loss must be the same within 1 %. Rounding
// differs, so the two runs drift apart step by step; more than this would be a mistake.
TEST(Torch, AGptOnTextReachesTheSameValidationLoss) {
  const std::filesystem::path text = shared_data("datasets/text/tinyshakespeare.txt");
  if (!std::filesystem::exists(text)) GTEST_SKIP() << "no " << text;
  constexpr size_t kSteps = 300, kLength = 64, kBatch = 16;
  const testing::Gpt2 gpt{.layers = 4,
                          .dim = 128,
                          .heads = 4,
                          .vocab = 256,
                          .context = kLength,
                          .batch = kBatch,
                          .length = kLength};
  std::ostringstream all;
  all << std::ifstream(text, std::ios::binary).rdbuf();
  const std::string bytes = all.str();
  const size_t cut = bytes.size() * 9 / 10;
  const butterfly::testing::TempDir folder;
  const auto data_of = [&](const char* name, const std::string& part) {
    folder.write(name, part);
    std::vector<int32_t> ids;
    for (const char c : part) ids.push_back(static_cast<unsigned char>(c));
    return TokenDataset(std::move(ids), kLength, 256, name);
  };
  const TokenDataset train = data_of("train.bin", bytes.substr(0, cut)),
                     valid = data_of("valid.bin", bytes.substr(cut));
  const BatchOrder order(train, {.rows = kBatch, .seed = 1});
  std::string lines;
  for (size_t step = 0; step < kSteps; ++step)
    for (size_t row = 0; row < kBatch; ++row)
      lines += std::to_string(order.item(step, row)) + (row + 1 == kBatch ? "\n" : " ");
  folder.write("order.txt", lines);

  Transformer network(gpt.untrained(), {.length = kLength});
  dump(network, folder.path());
  const auto torch = testing::run_python(
      "bench/train/gpt2_torch.py --layers 4 --dim 128 --heads 4 --vocab 256 --context 64 --batch 16 --length "
      "64 --lr 1e-3 --steps " +
      std::to_string(kSteps) + " --weights " + folder.path().string() + " --text " + folder.path().string());
  if (torch.skipped) GTEST_SKIP() << "python3-torch is not installed: " << torch.text;
  ASSERT_TRUE(torch.good) << torch.text;
  const size_t at = torch.text.find("valid ");
  ASSERT_NE(at, std::string::npos) << torch.text;
  const double expected = std::stod(torch.text.substr(at + 6));

  Trainer trainer(network, {.optimizer = {.weight_decay = 0.01}, .schedule = {.lr = 1e-3}});
  Batch batch;
  for (size_t step = 0; step < kSteps; ++step) {
    order.fill(step, batch);
    const MicroBatch part{.tokens = batch.ids, .pixels = {}, .targets = batch.targets};
    trainer.step({&part, 1});
  }
  const BatchOrder rest(valid, {.rows = 64, .shuffle = false, .keep_rest = true});
  double loss = 0;
  size_t targets = 0;
  for (size_t i = 0; i < rest.batches_per_epoch(); ++i) {
    rest.fill(i, batch);
    const MicroBatch part{.tokens = batch.ids, .pixels = {}, .targets = batch.targets};
    const StepReport report = trainer.evaluate({&part, 1});
    loss += report.loss * static_cast<double>(report.targets);
    targets += report.targets;
  }
  loss /= static_cast<double>(targets);
  std::fprintf(stderr, "validation loss after %zu steps: %.5f, PyTorch %.5f\n", kSteps, loss, expected);
  EXPECT_LT(loss, 3) << "has not learned: a uniform guess over the letters in use is about 4.2";
  EXPECT_NEAR(loss, expected, 0.01 * expected);
}

TEST(Torch, FiveLossesOfAConvolutionalNetworkAreEqual) {
  constexpr size_t kBatch = 8;
  const butterfly::testing::TempDir folder;
  const ImageNetwork network = ImageNetwork::from_file(source_path("bench/train/mnist_cnn.toml"), 1);
  dump(network, folder.path());
  const auto torch = testing::run_python("bench/train/mnist_torch.py --steps 5 --batch 8 --weights " +
                                         folder.path().string());
  if (torch.skipped) GTEST_SKIP() << "python3-torch is not installed: " << torch.text;
  ASSERT_TRUE(torch.good) << torch.text;
  Trainer trainer(network, {.optimizer = {.name = "adam"}, .schedule = {.lr = 1e-3}});
  std::istringstream lines(torch.text);
  for (size_t step = 0; step < 5; ++step) {
    size_t number = 0;
    double loss = 0;
    ASSERT_TRUE(lines >> number >> loss) << torch.text;
    std::vector<float> pixels(kBatch * 784);
    std::vector<int32_t> labels(kBatch);
    for (size_t i = 0; i < pixels.size(); ++i)
      pixels[i] = static_cast<float>((i * 7919 + step * 104729 + i * i % 1009 * 31) % 256) / 255 - 0.5f;
    for (size_t i = 0; i < kBatch; ++i) labels[i] = static_cast<int32_t>((i * 31 + step) % 10);
    const MicroBatch batch{.tokens = {}, .pixels = pixels, .targets = labels};
    EXPECT_NEAR(trainer.step({&batch, 1}).loss, loss, 1e-3) << "step " << step;
  }
}

}  // namespace
}  // namespace butterfly::train
