#include "train/data/image.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "train/data/image_codecs.h"

namespace butterfly::train {
namespace {

constexpr uint8_t kPngMark[] = {0x89, 'P', 'N', 'G'};
constexpr uint8_t kJpegMark[] = {0xff, 0xd8, 0xff};

template <size_t N>
bool begins_with(std::span<const std::byte> bytes, const uint8_t (&mark)[N]) {
  return bytes.size() >= N && std::equal(mark, mark + N, reinterpret_cast<const uint8_t*>(bytes.data()));
}

// Rec. 601 weights in 1/256; they sum to 256, so grey stays as it is.
Image to_grey(const Image& rgb) {
  Image grey{{1, rgb.shape.height, rgb.shape.width}, {}};
  for (size_t i = 0; i < rgb.bytes.size(); i += 3)
    grey.bytes.push_back(static_cast<uint8_t>(
        (77 * rgb.bytes[i] + 150 * rgb.bytes[i + 1] + 29 * rgb.bytes[i + 2] + 128) >> 8));
  return grey;
}

// What one output pixel takes from the input along one axis.
struct Taps {
  size_t first;
  std::vector<int32_t> weights;  // sum to 1 << kWeightBits
};
constexpr int kWeightBits = 15;

// A triangle as wide as an input pixel, or as an output pixel when shrinking. Plain sums and quotients of
// doubles, so the weights are the same everywhere.
std::vector<Taps> taps_of(size_t from, size_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double reach = std::max(scale, 1.0);
  std::vector<Taps> all;
  for (size_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto first = static_cast<size_t>(std::max(0.0, std::floor(centre - reach)));
    const auto last = std::min(from, static_cast<size_t>(std::ceil(centre + reach)));
    std::vector<double> exact;
    double sum = 0;
    for (size_t j = first; j < last; ++j) {
      const double distance = std::fabs(static_cast<double>(j) + 0.5 - centre) / reach;
      exact.push_back(std::max(0.0, 1.0 - distance));
      sum += exact.back();
    }
    Taps taps{first, {}};
    int32_t left = 1 << kWeightBits;
    for (const double weight : exact) {
      taps.weights.push_back(static_cast<int32_t>(std::floor(weight / sum * (1 << kWeightBits) + 0.5)));
      left -= taps.weights.back();
    }
    *std::max_element(taps.weights.begin(), taps.weights.end()) += left;  // rounding goes to the heaviest
    all.push_back(std::move(taps));
  }
  return all;
}

uint8_t rounded(int32_t sum) {
  return static_cast<uint8_t>(std::clamp((sum + (1 << (kWeightBits - 1))) >> kWeightBits, 0, 255));
}

}  // namespace

Image read_image(const std::filesystem::path& path, size_t channels) {
  BF_CHECK(channels == 1 || channels == 3) << channels;
  const auto file = MappedFile::open(path, FileAccess::kRead);
  const std::span<const std::byte> bytes = file->bytes();
  Image image;
  if (begins_with(bytes, kPngMark)) {
    image = decode_png(bytes, path.string());
  } else if (begins_with(bytes, kJpegMark)) {
    image = decode_jpeg(bytes, path.string());
  } else {
    fail(Errc::kUnsupported, "{}: is neither PNG nor JPEG", path.string());
  }
  return channels == 1 ? to_grey(image) : image;
}

Image resize_image(const Image& image, size_t height, size_t width) {
  if (image.shape.height == height && image.shape.width == width) return image;
  const size_t channels = image.shape.channels;
  Image wide{{channels, image.shape.height, width},
             std::vector<uint8_t>(channels * image.shape.height * width)};
  const auto across = taps_of(image.shape.width, width);
  for (size_t y = 0; y < image.shape.height; ++y) {
    for (size_t x = 0; x < width; ++x) {
      for (size_t c = 0; c < channels; ++c) {
        int32_t sum = 0;
        for (size_t k = 0; k < across[x].weights.size(); ++k)
          sum += across[x].weights[k] *
                 image.bytes[(y * image.shape.width + across[x].first + k) * channels + c];
        wide.bytes[(y * width + x) * channels + c] = rounded(sum);
      }
    }
  }
  Image out{{channels, height, width}, std::vector<uint8_t>(channels * height * width)};
  const auto down = taps_of(image.shape.height, height);
  const size_t row = width * channels;
  for (size_t y = 0; y < height; ++y) {
    for (size_t x = 0; x < row; ++x) {
      int32_t sum = 0;
      for (size_t k = 0; k < down[y].weights.size(); ++k)
        sum += down[y].weights[k] * wide.bytes[(down[y].first + k) * row + x];
      out.bytes[y * row + x] = rounded(sum);
    }
  }
  return out;
}

void image_to_floats(std::span<const uint8_t> bytes, const ImageShape& shape, bool planes,
                     const Normalise& normalise, std::span<float> out) {
  BF_CHECK(bytes.size() == shape.values() && out.size() == shape.values()) << bytes.size();
  const size_t pixels = shape.height * shape.width;
  for (size_t c = 0; c < shape.channels; ++c) {
    const float mean = normalise.mean[std::min(c, normalise.mean.size() - 1)];
    const float deviation = normalise.deviation[std::min(c, normalise.deviation.size() - 1)];
    std::array<float, 256> value_of;  // a look-up for each pixel instead of two divisions
    for (size_t byte = 0; byte < value_of.size(); ++byte)
      value_of[byte] = (static_cast<float>(byte) / 255.0f - mean) / deviation;
    for (size_t i = 0; i < pixels; ++i)
      out[c * pixels + i] = value_of[planes ? bytes[c * pixels + i] : bytes[i * shape.channels + c]];
  }
}

}  // namespace butterfly::train
