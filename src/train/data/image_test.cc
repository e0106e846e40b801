// PNG, JPEG and IDX files, folders of images, resizing, and what is refused.
#include "train/data/image.h"
#include "train/data/augment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <png.h>
#include <set>

#include <cstdio>

#include <jpeglib.h>

#include "base/error.h"
#include "base/testing/source_tree.h"
#include "base/testing/temp_dir.h"
#include "train/data/idx_dataset.h"
#include "train/data/image_folder.h"

namespace butterfly::train {
namespace {

using butterfly::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string png_of(size_t width, size_t height, std::vector<uint8_t> rgba) {
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(width);
  png.height = static_cast<png_uint_32>(height);
  png.format = PNG_FORMAT_RGBA;
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(png);
  std::string out(bytes, '\0');
  EXPECT_NE(png_image_write_to_memory(&png, out.data(), &bytes, 0, rgba.data(), 0, nullptr), 0)
      << png.message;
  out.resize(bytes);
  return out;
}

std::string jpeg_of(size_t width, size_t height, std::vector<uint8_t> rgb) {
  jpeg_compress_struct jpeg;
  jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* memory = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&jpeg, &memory, &bytes);
  jpeg.image_width = static_cast<JDIMENSION>(width);
  jpeg.image_height = static_cast<JDIMENSION>(height);
  jpeg.input_components = 3;
  jpeg.in_color_space = JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 95, TRUE);
  jpeg_start_compress(&jpeg, TRUE);
  while (jpeg.next_scanline < jpeg.image_height) {
    JSAMPROW row = rgb.data() + jpeg.next_scanline * width * 3;
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  std::string out(reinterpret_cast<char*>(memory), bytes);
  jpeg_destroy_compress(&jpeg);
  std::free(memory);
  return out;
}

template <typename F>
std::string error_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Image, PngKeepsItsPixelsAndLiesOnWhite) {
  const TempDir dir;
  const auto path = dir.write("a.png", png_of(2, 1, {10, 20, 30, 255, 0, 0, 0, 0}));
  const Image image = read_image(path, 3);
  EXPECT_EQ(image.shape, (ImageShape{3, 1, 2}));
  EXPECT_THAT(image.bytes, ElementsAre(10, 20, 30, 255, 255, 255));
  EXPECT_THAT(read_image(path, 1).bytes, ElementsAre((77 * 10 + 150 * 20 + 29 * 30 + 128) / 256, 255));
}

TEST(Image, JpegComesNearItsPixels) {
  const TempDir dir;
  std::vector<uint8_t> rgb;
  for (int i = 0; i < 16 * 16; ++i) rgb.insert(rgb.end(), {200, 100, 50});
  const Image image = read_image(dir.write("a.jpg", jpeg_of(16, 16, rgb)), 3);
  EXPECT_EQ(image.shape, (ImageShape{3, 16, 16}));
  for (size_t i = 0; i < image.bytes.size(); ++i) EXPECT_NEAR(image.bytes[i], rgb[i], 3);
}

TEST(Image, TornAndForeignFilesAreRefusedByName) {
  const TempDir dir;
  std::vector<uint8_t> noise;
  for (int i = 0; i < 64 * 64 * 4; ++i) noise.push_back(static_cast<uint8_t>(i * i * 7));
  const std::string png = png_of(64, 64, noise);
  const auto torn_png = dir.write("torn.png", png.substr(0, png.size() / 2));
  EXPECT_THAT(error_of([&] { read_image(torn_png, 3); }), HasSubstr("torn.png: "));
  const std::string jpeg = jpeg_of(64, 64, noise);
  for (const size_t left : {jpeg.size() / 2, size_t{20}, size_t{3}}) {
    const auto torn = dir.write("torn.jpg", jpeg.substr(0, left));
    EXPECT_THAT(error_of([&] { read_image(torn, 3); }), HasSubstr("torn.jpg: ")) << left;
  }
  const auto text = dir.write("text.png", "no image");
  EXPECT_THAT(error_of([&] { read_image(text, 3); }), HasSubstr("text.png: is neither PNG nor JPEG"));
}

TEST(Image, ResizingKeepsFlatImagesFlatAndAveragesWhenShrinking) {
  const Image flat{{1, 5, 7}, std::vector<uint8_t>(35, 93)};
  for (const size_t side : {1u, 3u, 5u, 16u})
    for (const uint8_t byte : resize_image(flat, side, side + 1).bytes) EXPECT_EQ(byte, 93);
  const Image stripes{{1, 1, 8}, {0, 255, 0, 255, 0, 255, 0, 255}};
  for (const uint8_t byte : resize_image(stripes, 1, 2).bytes) EXPECT_NEAR(byte, 127, 20);
  const Image ramp{{1, 1, 2}, {0, 200}};
  EXPECT_THAT(resize_image(ramp, 1, 4).bytes, ElementsAre(0, 50, 150, 200));
}

TEST(Image, FloatsStandPlaneByPlane) {
  std::vector<float> out(6);
  const std::vector<uint8_t> pixels = {255, 0, 51, 0, 255, 102};
  image_to_floats(pixels, {3, 1, 2}, false, {.mean = {0.0f, 0.5f, 0.0f}, .deviation = {1.0f, 0.5f, 1.0f}},
                  out);
  EXPECT_THAT(out, ElementsAre(1.0f, 0.0f, -1.0f, 1.0f, 0.2f, 0.4f));
}

TEST(Augment, MovesAndMirrors) {
  const ImageShape shape{1, 3, 4};
  std::vector<float> image(12);
  for (size_t i = 0; i < 12; ++i) image[i] = static_cast<float>(i);
  size_t mirrored = 0;
  std::set<std::vector<float>> seen;
  for (uint64_t batch = 0; batch < 200; ++batch) {
    std::vector<float> changed = image;
    Augment{.flip = true, .crop = 0, .seed = 4}.apply(batch, 2, shape, changed);
    if (changed != image) {
      ++mirrored;
      EXPECT_EQ(changed, (std::vector<float>{3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8}));
    }
    changed = image;
    Augment{.flip = false, .crop = 1, .seed = 4}.apply(batch, 2, shape, changed);
    seen.insert(changed);
  }
  EXPECT_GT(mirrored, 70u);
  EXPECT_LT(mirrored, 130u);
  EXPECT_EQ(seen.size(), 9u);  // three places each way
  EXPECT_TRUE(seen.contains({1, 2, 3, 3, 5, 6, 7, 7, 9, 10, 11, 11}));
  EXPECT_TRUE(seen.contains({0, 0, 1, 2, 0, 0, 1, 2, 4, 4, 5, 6}));
}

TEST(ImageFolder, ClassesAreSubFolders) {
  const TempDir dir;
  dir.write("data/cat/b.png", png_of(1, 1, {1, 1, 1, 255}));
  dir.write("data/cat/a.PNG", png_of(1, 1, {2, 2, 2, 255}));
  dir.write("data/cat/notes.txt", "passed over");
  dir.write("data/dog/c.jpg", jpeg_of(8, 8, std::vector<uint8_t>(192, 255)));
  dir.write("data/empty/x.txt", "");
  const ImageFolder data(dir / "data", {1, 2, 2}, {});
  EXPECT_EQ(data.size(), 3u);
  EXPECT_THAT(data.classes(), ElementsAre("cat", "dog"));
  Batch batch;
  batch.resize(1, data.shape());
  data.read(0, batch.row(0));
  EXPECT_EQ(batch.values[0], 2.0f / 255.0f);
  EXPECT_EQ(batch.targets[0], 0);
  data.read(2, batch.row(0));
  EXPECT_EQ(batch.targets[0], 1);
  EXPECT_NEAR(batch.values[3], 1.0f, 0.01f);
  EXPECT_THAT(error_of([&] {
                ImageFolder(dir / "data/cat", {1, 2, 2}, {});
              }),
              HasSubstr("has no sub-folder"));
  EXPECT_THAT(error_of([&] { ImageFolder(dir / "none", {1, 2, 2}, {}); }), HasSubstr("no such folder"));
}

TEST(IdxDataset, ReadsWhatTheFormatSays) {
  using namespace std::string_literals;
  const TempDir dir;
  const auto images = dir.write("i", "\0\0\x08\3\0\0\0\2\0\0\0\1\0\0\0\2"s + "\0\xff\x33\x66"s);
  const auto labels = dir.write("l", "\0\0\x08\1\0\0\0\2\4\7"s);
  const IdxDataset data(images, labels, {});
  EXPECT_EQ(data.size(), 2u);
  EXPECT_EQ(data.image(), (ImageShape{1, 1, 2}));
  EXPECT_EQ(data.classes(), 8u);
  Batch batch;
  batch.resize(1, data.shape());
  data.read(1, batch.row(0));
  EXPECT_THAT(batch.values, ElementsAre(0.2f, 0.4f));
  EXPECT_EQ(batch.targets[0], 7);

  const auto refused = [&](const std::string& bytes, const char* words) {
    const auto bad = dir.write("bad", bytes);
    EXPECT_THAT(error_of([&] { read_idx(bad); }), HasSubstr(words));
  };
  refused("\0\0\x08\1\0\0\0\3ab"s, "expected 1 more");
  refused("\0\0\x08\1\0\0\0\1ab"s, "behind its 1 elements");
  refused("\0\0\x0d\1\0\0\0\1abcd"s, "only unsigned bytes");
  refused("text", "no IDX file");
  refused("\0\0\x08\4\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"s,
          "says it holds more");
  refused("\x1f\x8b\x08\0\0\0\0\0\0\3garbage", "bad: ");
  EXPECT_THAT(error_of([&] { IdxDataset(images, dir.write("two", "\0\0\x08\1\0\0\0\1\4"s), {}); }),
              HasSubstr("1 labels for the 2 images"));
}

TEST(IdxDataset, Mnist) {
  const std::filesystem::path folder = shared_data("datasets/mnist");
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  const IdxDataset data(folder / "t10k-images-idx3-ubyte.gz", folder / "t10k-labels-idx1-ubyte.gz", {});
  EXPECT_EQ(data.size(), 10000u);
  EXPECT_EQ(data.image(), (ImageShape{1, 28, 28}));
  EXPECT_EQ(data.classes(), 10u);
  Batch batch;
  batch.resize(1, data.shape());
  std::vector<int32_t> labels;
  for (uint64_t i = 0; i < 5; ++i) {
    data.read(i, batch.row(0));
    labels.push_back(batch.targets[0]);
  }
  EXPECT_THAT(labels, ElementsAre(7, 2, 1, 0, 4));  // as everybody knows them
}

}  // namespace
}  // namespace butterfly::train
