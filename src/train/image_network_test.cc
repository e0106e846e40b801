// Networks from TOML: shapes, mistakes in words, and learning.
#include "train/image_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/rng.h"
#include "train/trainer.h"

namespace butterfly::train {
namespace {

constexpr const char* kResidual = R"(
input = [8, 8, 2]
[[layer]]
type = "conv2d"
out = 8
kernel = 3
padding = 1
bias = false
name = "stem"
[[layer]]
type = "batch_norm"
[[layer]]
type = "relu"
name = "start"
[[layer]]
type = "depthwise_conv2d"
kernel = 3
padding = 1
stride = 2
activation = "relu"
[[layer]]
type = "conv2d"
out = 16
kernel = 1
[[layer]]
type = "group_norm"
groups = 4
name = "main"
[[layer]]
type = "conv2d"
input = "start"
out = 16
kernel = 1
stride = 2
[[layer]]
type = "add"
from = "main"
[[layer]]
type = "relu"
[[layer]]
type = "dropout"
rate = 0.1
[[layer]]
type = "avg_pool"
kernel = [2, 2]
[[layer]]
type = "global_avg_pool"
[[layer]]
type = "linear"
out = 3
)";

std::string error_of(const std::string& text) {
  try {
    const ImageNetwork network(text, "net.toml", 1);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ImageNetwork, MistakesAreErrorsWithTheirLine) {
  EXPECT_EQ(error_of("input = [4, 4, 1]\n[[layer]]\ntype = 'conv2d'\nout = 3\nkernel = 5\n"),
            "net.toml:2: layer conv2d_0 (conv2d): [conv2d] conv2d_0: a kernel that reaches over 5 x 5 does "
            "not fit an image of 4 x 4");
  EXPECT_EQ(error_of("input = [4, 4, 3]\n[[layer]]\ntype = 'conv2d'\nout = 4\nkernel = 3\ngroups = 2\n"),
            "net.toml:2: layer conv2d_0 (conv2d): 3 and 4 channels do not divide into 2 groups");
  EXPECT_THAT(error_of("input = [4, 4, 1]\n[[layer]]\ntype = 'linear'\nout = 2\nsize = 1\n"),
              ::testing::HasSubstr("net.toml:5: key 'size' is not known here"));
  EXPECT_THAT(error_of("input = [4, 4, 1]\n[[layer]]\ntype = 'lineer'\n"),
              ::testing::HasSubstr("type: expected"));
  EXPECT_THAT(error_of("input = [4, 4]\n[[layer]]\ntype = 'relu'\n"),
              ::testing::HasSubstr("[height, width, channels]"));
  EXPECT_THAT(error_of("input = [4, 4, 1]\n[[layer]]\ntype = 'add'\nfrom = 'x'\n"),
              ::testing::HasSubstr("no layer 'x' stands before this one"));
  EXPECT_THAT(
      error_of("input = [4, 4, 1]\n[[layer]]\ntype = 'linear'\nout = 4\n[[layer]]\ntype = 'max_pool'\n"
               "kernel = 2\n"),
      ::testing::HasSubstr("expected 4 axes of the image batch, found 2"));
}

TEST(ImageNetwork, ShapesFollowTheLayers) {
  const ImageNetwork network(kResidual, "residual.toml", 1);
  EXPECT_EQ(network.classes(), 3u);
  EXPECT_THAT(network.summary(), ::testing::HasSubstr("depthwise_conv2d"));
  EXPECT_THAT(network.summary(), ::testing::HasSubstr("4 x 4 x 16"));
  EXPECT_EQ(network.weights().at("stem.weight").shape(), (Shape{8, 3, 3, 2}));
}

// Three kinds of pictures: bright left, bright top, neither; with noise.
struct Pictures {
  std::vector<float> pixels;
  std::vector<int32_t> labels;
  Pictures(size_t count, uint64_t seed) {
    for (size_t i = 0; i < count; ++i) {
      const auto label = static_cast<int32_t>(random_u64(seed, i, 0) % 3);
      for (size_t p = 0; p < 2 * 64; ++p) {
        const size_t y = p % 64 / 8, x = p % 8;
        const bool bright = (label == 0 && x < 3) || (label == 1 && y < 3);
        pixels.push_back((bright ? 1.0f : 0.0f) + 0.5f * random_normal(seed, i, p + 1));
      }
      labels.push_back(label);
    }
  }
  std::vector<MicroBatch> cut(size_t items) const {
    std::vector<MicroBatch> batches;
    for (size_t i = 0; i < labels.size(); i += items)
      batches.push_back({.tokens = {},
                         .pixels = std::span(pixels).subspan(i * 128, items * 128),
                         .targets = std::span(labels).subspan(i, items)});
    return batches;
  }
};

TEST(ImageNetwork, LearnsAndDoesNotDependOnWorkers) {
  std::vector<std::vector<float>> results;
  for (const size_t workers : {1, 2, 3}) {
    const ImageNetwork network(kResidual, "residual.toml", 1);
    TrainerOptions options{.optimizer = {.kind = OptimizerKind::kAdam}, .schedule = {.lr = 1e-2}};
    options.workers = workers;
    options.threads_per_worker = 1;
    Trainer trainer(network, options);
    StepReport first, last;
    for (uint64_t step = 0; step < 40; ++step) {
      const Pictures data(48, step);
      last = trainer.step(data.cut(12));
      if (step == 0) first = last;
    }
    EXPECT_NEAR(first.loss, std::log(3.0), 0.6);
    EXPECT_LT(last.loss, 0.3);
    const Pictures held_out(96, 1000);
    const StepReport test = trainer.evaluate(held_out.cut(12));  // with running statistics
    EXPECT_GT(test.correct, 86u);
    std::vector<float> weights;
    for (const auto& [name, tensor] : network.weights())
      weights.insert(weights.end(), tensor.data<float>(), tensor.data<float>() + tensor.count());
    results.push_back(weights);
  }
  EXPECT_EQ(results[1], results[0]);
  EXPECT_EQ(results[2], results[0]);
}

}  // namespace
}  // namespace butterfly::train
