// The recipe docs/networks/mnist.yml reads digits: at least 99.0 % of the test set.
#include <gtest/gtest.h>

#include "base/testing/source_tree.h"
#include "base/testing/temp_dir.h"
#include "train/train_run.h"

namespace butterfly::train {
namespace {

TEST(Mnist, AtLeast99PercentOfTheTestSet) {
  const std::filesystem::path folder = shared_data("datasets/mnist");
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no MNIST in " << folder;
  const butterfly::testing::TempDir dir;
  TrainConfig config;
  read_config_file(source_path("docs/networks/mnist.yml"), config);
  config.datasets = {(folder / "train-images-idx3-ubyte.gz").string()};
  config.test_datasets = {(folder / "t10k-images-idx3-ubyte.gz").string()};
  config.output_dir = dir.path().string();
  const RunResult result = TrainRun(config).run([](const RunProgress& p) {
    if (p.valid)
      std::fprintf(stderr, "step %zu: %.2f %%\n", static_cast<size_t>(p.step),
                   100 * p.valid_right.value_or(0));
    return true;
  });
  ASSERT_TRUE(result.finished);
  EXPECT_GE(result.valid_right.value_or(0), 0.99);
}

}  // namespace
}  // namespace butterfly::train
