// Ten steps of a small GPT-2, and five of a convolutional network, against PyTorch from the same weights.
#include <gtest/gtest.h>

#include <sstream>

#include "base/testing/temp_dir.h"
#include "train/image_network.h"
#include "train/testing/gpt2.h"
#include "train/testing/npy.h"
#include "train/testing/python.h"
#include "train/trainer.h"

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

TEST(Torch, FiveLossesOfAConvolutionalNetworkAreEqual) {
  constexpr size_t kBatch = 8;
  const butterfly::testing::TempDir folder;
  const ImageNetwork network = ImageNetwork::from_file(BUTTERFLY_SOURCE_DIR "/bench/train/mnist_cnn.toml", 1);
  dump(network, folder.path());
  const auto torch = testing::run_python("bench/train/mnist_torch.py --steps 5 --batch 8 --weights " +
                                         folder.path().string());
  if (torch.skipped) GTEST_SKIP() << "python3-torch is not installed: " << torch.text;
  ASSERT_TRUE(torch.good) << torch.text;
  Trainer trainer(network, {.optimizer = {.kind = OptimizerKind::kAdam}, .schedule = {.lr = 1e-3}});
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
