// Image networks in whole runs: learnt from IDX files and folders, the same bytes however they were made, and
// refused in words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>

#include "base/error.h"
#include "base/rng.h"
#include "base/testing/temp_dir.h"
#include "model/formats/model_file.h"
#include "train/data/text_file.h"
#include "train/metrics.h"
#include "train/testing/tiny_runs.h"
#include "train/train_run.h"

namespace butterfly::train {
namespace {

using ::testing::HasSubstr;

constexpr size_t kSide = 8;

// With everything whose state a run must keep: running statistics, dropout, ways that part and meet.
constexpr const char* kNetwork = R"(
input = [8, 8, 1]
[[block.residual.layer]]
type = "conv2d"
out = "$out"
kernel = 3
padding = 1
bias = false
[[block.residual.layer]]
type = "batch_norm"
[[block.residual.layer]]
type = "add"
from = "input"
[[block.residual.layer]]
type = "relu"
[[layer]]
type = "conv2d"
out = 8
kernel = 3
activation = "relu"
[[layer]]
type = "residual"
out = 8
repeat = 2
[[layer]]
type = "max_pool"
kernel = 2
[[layer]]
type = "dropout"
rate = 0.1
[[layer]]
type = "linear"
out = 2
)";

using testing::idx_header;

// Noise; class 1 is brighter at the top, class 0 at the bottom.
struct Pictures {
  std::vector<std::string> pixels;
  std::string labels;
  Pictures(size_t count, uint64_t seed) {
    for (size_t i = 0; i < count; ++i) {
      const bool top = random_u64(seed, i, 1000) % 2 == 1;
      labels += static_cast<char>(top);
      std::string& image = pixels.emplace_back();
      for (size_t p = 0; p < kSide * kSide; ++p)
        image += static_cast<char>(random_u64(seed, i, p) % 100 + ((p < kSide * kSide / 2) == top ? 60 : 0));
    }
  }
};

struct ImageTask : ::testing::Test {
  ImageTask() {
    write_idx("train", {300, 1});
    write_idx("test", {45, 2});  // its last batch is not a whole one
    dir.write("net.toml", kNetwork);
  }
  void write_idx(const std::string& part, const Pictures& pictures) {
    const auto count = static_cast<uint32_t>(pictures.labels.size());
    std::string images = idx_header({count, kSide, kSide});
    for (const std::string& image : pictures.pixels) images += image;
    dir.write(part + "-images-idx3-ubyte", images);
    dir.write(part + "-labels-idx1-ubyte", idx_header({count}) + pictures.labels);
  }
  void write_folder(const std::string& folder, const Pictures& pictures) {
    for (size_t i = 0; i < pictures.labels.size(); ++i) {
      png_image png = {};
      png.version = PNG_IMAGE_VERSION;
      png.width = png.height = kSide;
      png.format = PNG_FORMAT_GRAY;
      png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(png);
      std::string out(bytes, '\0');
      ASSERT_NE(png_image_write_to_memory(&png, out.data(), &bytes, 0, pictures.pixels[i].data(), 0, nullptr),
                0);
      out.resize(bytes);
      dir.write(folder + (pictures.labels[i] == 1 ? "/top/" : "/bottom/") + std::to_string(i) + ".png", out);
    }
  }
  TrainConfig config(const char* out) const {
    TrainConfig c;
    c.model.network = (dir / "net.toml").string();
    c.datasets = {(dir / "train-images-idx3-ubyte").string()};
    c.test_datasets = {(dir / "test-images-idx3-ubyte").string()};
    c.image_mean = {0.3};
    c.image_std = {0.2};
    c.micro_batch_size = 5;
    c.gradient_accumulation_steps = 4;
    c.max_steps = 20;
    c.learning_rate = 1e-2;
    c.save_steps = 3;
    c.eval_steps = 10;
    c.threads = 1;
    c.output_dir = (dir / out).string();
    return c;
  }
  static RunResult train(const TrainConfig& c, uint64_t stop = UINT64_MAX) {
    return TrainRun(c).run([&](const RunProgress& p) { return p.step < stop; });
  }
  std::string error_of(const TrainConfig& c) const {
    try {
      TrainRun run(c);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  butterfly::testing::TempDir dir;
};

TEST_F(ImageTask, LearnsAndIsTheSameHoweverItWasMade) {
  const RunResult plain = train(config("plain"));
  ASSERT_TRUE(plain.finished);
  EXPECT_GE(plain.valid_right.value_or(0), 0.95);
  const std::string expected = read_text(plain.model);

  for (const size_t workers : {2, 4}) {
    TrainConfig other = config(workers == 2 ? "two" : "four");
    other.workers = workers;
    other.dataloader_num_workers = workers == 2 ? 0 : 3;
    other.dataloader_prefetch_factor = 2;
    EXPECT_EQ(read_text(train(other).model), expected) << workers;
  }
  TrainConfig other = config("stopped");
  other.workers = 2;
  EXPECT_FALSE(train(other, 7).finished);
  other.workers = 1;
  EXPECT_EQ(train(other, 13).step, 13u);
  EXPECT_EQ(read_text(train(other).model), expected);
  const auto lines = read_metrics(dir / "stopped/metrics.jsonl");
  ASSERT_EQ(lines.size(), 20u);
  EXPECT_EQ(lines[19].valid_right, plain.valid_right);
  EXPECT_THAT(read_text(dir / "stopped/loss.svg"), HasSubstr("% right"));

  other = config("seed");
  other.seed = 43;
  EXPECT_NE(read_text(train(other).model), expected);
}

// Mirrored and moved images are drawn by place, so they are the same for any number of threads.
TEST_F(ImageTask, ImagesThatAreChangedAreDrawnByPlace) {
  TrainConfig c = config("changed");
  c.max_steps = 4;
  const std::string plain = read_text(train(c).model);
  c.output_dir = (dir / "mirrored").string();
  c.image_flip = true;
  c.image_crop = 1;
  const std::string expected = read_text(train(c).model);
  EXPECT_NE(expected, plain);
  c.output_dir = (dir / "mirrored-again").string();
  c.workers = 2;
  c.dataloader_num_workers = 3;
  EXPECT_FALSE(train(c, 2).finished);
  EXPECT_EQ(read_text(train(c).model), expected);
  c.image_crop = 100;
  c.output_dir = (dir / "too-far").string();
  EXPECT_THAT(error_of(c), HasSubstr("image_crop: 100 pixels"));
}

TEST_F(ImageTask, ValuesComputedAgainAreTheSame) {
  TrainConfig c = config("kept");
  c.max_steps = 4;
  const std::string expected = read_text(train(c).model);
  c.output_dir = (dir / "again").string();
  c.gradient_checkpointing = true;
  EXPECT_EQ(read_text(train(c).model), expected);
}

// The file holds the description: it is enough to go on from, and to be judged by.
TEST_F(ImageTask, TheModelFileIsANetworkOfItsOwn) {
  const RunResult plain = train(config("plain"));
  const model::ModelFile file = model::open_model(plain.model);
  EXPECT_EQ(file.architecture(), "image");
  TrainConfig c = config("other");
  c.model.network.clear();
  c.base_model = plain.model.string();
  TrainRun run(c, RunMode::kAfresh);
  const auto report = run.validate();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->loss, *plain.valid);
  EXPECT_EQ(report->targets, 45u);
  EXPECT_EQ(run.unit(), "images");
}

TEST_F(ImageTask, FoldersOfImagesAreTheSameAsIdxFiles) {
  write_folder("pictures", {40, 1});
  write_folder("held-out", {20, 2});
  write_idx("few", {40, 1});
  TrainConfig c = config("folder");
  c.max_steps = 2;
  c.datasets = {(dir / "pictures").string()};
  c.test_datasets = {(dir / "held-out").string()};
  const RunResult result = train(c);
  ASSERT_TRUE(result.finished);
  const model::ModelFile file = model::open_model(result.model);
  EXPECT_THAT(file.metadata().strings("image.classes"), ::testing::ElementsAre("bottom", "top"));
  // Another order of the same images, so another result; the same images and labels all the same.
  c.test_datasets = {(dir / "few-images-idx3-ubyte").string()};
  const auto idx_loss = TrainRun(c).validate()->loss;
  c.test_datasets = {(dir / "pictures").string()};
  EXPECT_NEAR(TrainRun(c).validate()->loss, idx_loss, 1e-6);

  std::filesystem::rename(dir / "held-out/top", dir / "held-out/upper");
  c.test_datasets = {(dir / "held-out").string()};
  EXPECT_THAT(error_of(c), HasSubstr("has the classes bottom, upper"));
}

TEST_F(ImageTask, TheDryRunSaysWhatWouldBeDone) {
  TrainConfig c = config("out");
  TrainRun run(c, RunMode::kDry);
  for (const char* words : {"images of 8x8x1, 2 classes", "300 images", "20 of 20 images (5 x 4)",
                            "pool/LOAD", "residual_1.0.batch_norm_1"})
    EXPECT_THAT(run.report(), HasSubstr(words));
  c.datasets.clear();
  c.test_datasets.clear();
  EXPECT_THAT(TrainRun(c, RunMode::kDry).report(), HasSubstr("none is named"));
  EXPECT_THAT(error_of(c), HasSubstr("datasets: expected at least one file"));
  EXPECT_FALSE(std::filesystem::exists(dir / "out"));
}

TEST_F(ImageTask, ADescriptionThatChangedIsAnotherRun) {
  const TrainConfig c = config("out");
  train(c, 2);
  std::string text = kNetwork;
  text.replace(text.find("rate = 0.1"), 10, "rate = 0.2");
  dir.write("net.toml", text);
  EXPECT_THAT(error_of(c), HasSubstr("was made with network = "));
}

TEST_F(ImageTask, WhatDoesNotFitIsRefusedInWords) {
  const std::string head = "[[layer]]\ntype = \"linear\"\nout = ";
  TrainConfig c = config("out");
  c.model.network = dir.write("large.toml", "input = [10, 8, 1]\n" + head + "2\n").string();
  EXPECT_THAT(error_of(c), HasSubstr("images of 8x8x1, the network's input is 10x8x1"));
  c.model.network = dir.write("one.toml", "input = [8, 8, 1]\n" + head + "1\n").string();
  EXPECT_THAT(error_of(c), HasSubstr("has 2 classes, the network's last layer 1"));
  c = config("out");
  c.datasets = {(dir / "net.toml").string()};
  EXPECT_THAT(error_of(c), HasSubstr("expected a folder of images, or an IDX file"));
  c = config("out");
  c.model.network = (dir / "none.toml").string();
  EXPECT_THAT(error_of(c), HasSubstr("none.toml: cannot be opened"));
  c = config("out");
  c.image_mean = {0.1, 0.2};
  EXPECT_THAT(error_of(c), HasSubstr("image_mean: has 2 numbers, images have 1 channels"));
  c = config("out");
  c.dropout = 0.5;
  EXPECT_THAT(error_of(c), HasSubstr("as layers"));
}

}  // namespace
}  // namespace butterfly::train
