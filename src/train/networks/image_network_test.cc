// Networks from TOML: shapes, mistakes in words, and learning.
#include "train/networks/image_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/rng.h"
#include "base/testing/source_tree.h"
#include "train/trainer/trainer.h"

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

std::string block_use(const std::string& keys) {
  return "input = [4, 4, 2]\n[[block.pair.layer]]\ntype = 'conv2d'\nout = '$out'\nkernel = 1\nname = "
         "'first'\n"
         "[[block.pair.layer]]\ntype = 'add'\nfrom = 'input'\n[[layer]]\ntype = 'pair'\n" +
         keys;
}

TEST(ImageNetwork, BlocksAreWrittenOut) {
  const std::string text = block_use("out = 2\nrepeat = 3\nname = 'p'\n") +
                           "[[layer]]\ntype = 'pair'\nout = 2\ninput = 'p.0'\nname = 'q'\n"
                           "[[layer]]\ntype = 'add'\nfrom = 'p'\n[[layer]]\ntype = 'linear'\nout = 3\n";
  const ImageNetwork network(text, "net.toml", 1);
  EXPECT_EQ(network.parameter_count(), 4u * (2 * 2 + 2) + 32 * 3 + 3);
  EXPECT_EQ(network.weights().at("p.1.first.weight").shape(), (Shape{2, 1, 1, 2}));
  EXPECT_TRUE(network.weights().contains("q.first.bias"));
  // The same network by hand.
  std::string flat = "input = [4, 4, 2]\n";
  const auto add = [&](const std::string& name, const std::string& input) {
    flat += "[[layer]]\ntype = 'conv2d'\nout = 2\nkernel = 1\nname = '" + name + ".first'\ninput = '" +
            input + "'\n[[layer]]\ntype = 'add'\nfrom = '" + input + "'\nname = '" + name + "'\n";
  };
  add("p.0", "input");
  add("p.1", "p.0");
  add("p.2", "p.1");
  add("q", "p.0");
  flat += "[[layer]]\ntype = 'add'\nfrom = 'p.2'\n[[layer]]\ntype = 'linear'\nout = 3\nname = 'linear_3'\n";
  const ImageNetwork by_hand(flat, "flat.toml", 1);
  std::vector<float> pixels(32);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = random_normal(5, 0, i);
  const int32_t target = 1;
  const MicroBatch batch{.tokens = {}, .pixels = pixels, .targets = {&target, 1}};
  const double loss = Trainer(network, {}).evaluate({&batch, 1}).loss;
  EXPECT_EQ(loss, Trainer(by_hand, {}).evaluate({&batch, 1}).loss);
  EXPECT_NE(loss, std::log(3.0));
}

TEST(ImageNetwork, MistakesInBlocksAreErrorsWithTheirLine) {
  using ::testing::HasSubstr;
  EXPECT_THAT(error_of(block_use("repeat = 2\n")),
              HasSubstr("net.toml:4: out: expected a key 'out' in line 10, where the block is used"));
  EXPECT_THAT(error_of(block_use("out = 2\nstride = 2\n")),
              HasSubstr("net.toml:13: key 'stride': block 'pair' has no $stride"));
  EXPECT_THAT(error_of(block_use("out = 'many'\n")), HasSubstr("net.toml:12: out: expected a whole number"));
  EXPECT_THAT(error_of(block_use("out = 3\n")), HasSubstr("net.toml:7: layer pair_0.add_1 (add): "));
  EXPECT_THAT(error_of(block_use("out = 2\nrepeat = 0\n")), HasSubstr("net.toml:13: repeat: expected"));
  EXPECT_THAT(error_of("input = [4, 4, 1]\n[[block.a.layer]]\ntype = 'a'\n[[layer]]\ntype = 'a'\n"),
              HasSubstr("net.toml:2: a block cannot stand in a block"));
  EXPECT_THAT(error_of("input = [4, 4, 1]\n[[layer]]\ntype = 'relu'\nname = 'input'\n"),
              HasSubstr("'input' is the image"));
}

// The networks that everybody knows, as they are shipped: as many weights as published, and plans of their
// graphs close to what no plan can be below.
TEST(ImageNetwork, PlansOfResNetsAreWithinAHundredthOfLoad) {
  struct Row {
    const char* file;
    size_t weights;
  };
  for (const Row& row : {Row{"resnet18.toml", 11689512}, Row{"resnet50.toml", 25557032}}) {
    const ImageNetwork network = ImageNetwork::from_file(source_path("docs/networks") / row.file, 1, false);
    EXPECT_EQ(network.parameter_count(), row.weights) << row.file;
    EXPECT_EQ(network.classes(), 1000u);
    TrainerOptions options;
    options.threads_per_worker = 2;
    Trainer trainer(network, options);
    for (const bool training : {false, true}) {
      for (const size_t items : {1, 8}) {
        const graph::MemoryPlan& plan = trainer.executor(items, training).plan();
        const double ratio = static_cast<double>(plan.arena_bytes) / static_cast<double>(plan.live_bytes_max);
        std::printf("%s, %zu images, %s: pool %zu, LOAD %zu, pool/LOAD %.4f\n", row.file, items,
                    training ? "training" : "evaluation", plan.arena_bytes, plan.live_bytes_max, ratio);
        EXPECT_LE(ratio, 1.01) << row.file << ", " << items << ", " << training;
      }
    }
  }
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
    TrainerOptions options{.optimizer = {.name = "adam"}, .schedule = {.lr = 1e-2}};
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
