// Ten steps of a small GPT-2 against PyTorch from the same weights: the losses agree.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <sstream>

#include "base/testing/temp_dir.h"
#include "train/testing/gpt2.h"
#include "train/testing/npy.h"
#include "train/trainer.h"

namespace butterfly::train {
namespace {

TEST(Gpt2, TenLossesEqualTorchs) {
  const testing::Gpt2 gpt;
  const butterfly::testing::TempDir folder;
  Transformer network(gpt.untrained(), {.length = gpt.length});
  for (const auto& [name, tensor] : network.weights())
    testing::write_npy(folder.path() / (name + ".npy"), tensor);
  const std::string command =
      "/usr/bin/python3 " BUTTERFLY_SOURCE_DIR
      "/bench/train/gpt2_torch.py --layers 2 --dim 64 --heads 4 --vocab 256 --context 64 "
      "--batch 4 --length 32 --steps 10 --lr 1e-3 --weights " +
      folder.path().string() + " 2>&1";
  std::FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string text;
  std::array<char, 4096> chunk;
  while (std::fgets(chunk.data(), chunk.size(), pipe) != nullptr) text += chunk.data();
  const int status = pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
    GTEST_SKIP() << "python3-torch is not installed: " << text;
  ASSERT_EQ(status, 0) << text;

  Trainer trainer(network, {.optimizer = {.weight_decay = 0.01}, .schedule = {.lr = 1e-3}});
  std::istringstream lines(text);
  for (size_t step = 0; step < 10; ++step) {
    size_t number = 0;
    double loss = 0, seconds = 0;
    ASSERT_TRUE(lines >> number >> loss >> seconds) << text;
    ASSERT_EQ(number, step);
    const testing::Gpt2Tokens data(gpt, step);
    const MicroBatch batch = data.batch();
    EXPECT_NEAR(trainer.step({&batch, 1}).loss, loss, 1e-4) << "step " << step;
  }
}

}  // namespace
}  // namespace butterfly::train
