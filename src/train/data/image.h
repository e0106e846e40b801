// Images as bytes: from PNG and JPEG files, brought to one size, and as normalised floats.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace butterfly::train {

struct ImageShape {
  size_t channels = 0;  // 1: grey, 3: red, green, blue
  size_t height = 0;
  size_t width = 0;
  size_t values() const { return channels * height * width; }
  friend bool operator==(const ImageShape&, const ImageShape&) = default;
};

// Rows from the top, channels side by side: [height, width, channels].
struct Image {
  ImageShape shape;
  std::vector<uint8_t> bytes;
};

inline constexpr size_t kImageSideMax = 16384;  // larger ones are refused before memory is taken

// Decodes a PNG or JPEG (told apart by its first bytes) as grey or RGB; transparency is laid on white. The
// same pixels on every machine: integer arithmetic only. Throws Error: kNotFound, kIo, kCorrupt,
// kUnsupported.
Image read_image(const std::filesystem::path& path, size_t channels);

// Bilinear, in whole numbers (weights of 1/256), pixel centres aligned; shrinking averages over the area
// first.
Image resize_image(const Image& image, size_t height, size_t width);

// (byte / 255 - mean) / deviation, by channel; one entry serves all channels.
struct Normalise {
  std::vector<float> mean = {0.0f};
  std::vector<float> deviation = {1.0f};
};

// Writes [channels, height, width] floats. `planes`: the bytes already stand plane by plane.
void image_to_floats(std::span<const uint8_t> bytes, const ImageShape& shape, bool planes,
                     const Normalise& normalise, std::span<float> out);

}  // namespace butterfly::train
