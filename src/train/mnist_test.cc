// The network of bench/train/mnist_cnn.toml reads digits: at least 99.0 % of the test set.
#include <gtest/gtest.h>

#include "train/image_network.h"
#include "train/testing/mnist.h"
#include "train/trainer.h"

namespace butterfly::train {
namespace {

TEST(Mnist, AtLeast99PercentOfTheTestSet) {
  const std::filesystem::path folder = BUTTERFLY_SOURCE_DIR "/../shared/data/datasets/mnist";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no MNIST in " << folder;
  testing::Mnist data(folder, "train");
  const testing::Mnist test(folder, "t10k");
  constexpr size_t kBatch = 64, kEpochs = 4;
  const size_t steps = data.size() / kBatch;
  const ImageNetwork network = ImageNetwork::from_file(BUTTERFLY_SOURCE_DIR "/bench/train/mnist_cnn.toml", 1);
  Trainer trainer(network,
                  {.optimizer = {.kind = OptimizerKind::kAdam},
                   .schedule = {.kind = ScheduleKind::kCosine, .lr = 1e-3, .total_steps = kEpochs * steps}});
  std::vector<MicroBatch> held_out;
  for (size_t i = 0; i < test.size(); i += 100) held_out.push_back(test.batch(i, 100));
  StepReport result;
  for (size_t epoch = 0; epoch < kEpochs; ++epoch) {
    data.shuffle(1, epoch);
    for (size_t i = 0; i < steps; ++i) {
      const MicroBatch batch = data.batch(i * kBatch, kBatch);
      trainer.step({&batch, 1});
    }
    result = trainer.evaluate(held_out);
    std::fprintf(stderr, "epoch %zu: %zu of %zu\n", epoch + 1, result.correct, result.targets);
  }
  EXPECT_GE(result.correct, 9900u);
}

}  // namespace
}  // namespace butterfly::train
