// PNG by libpng's simplified interface, always as RGBA; laying it on white is done here.
#include <png.h>

#include "base/error.h"
#include "train/data/image_codecs.h"

namespace butterfly::train {

Image decode_png(std::span<const std::byte> bytes, const std::string& name) {
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  const auto corrupt = [&] {
    const std::string words = png.message;
    png_image_free(&png);
    fail(Errc::kCorrupt, "{}: {}", name, words);
  };
  if (png_image_begin_read_from_memory(&png, bytes.data(), bytes.size()) == 0) corrupt();
  if (png.width > kImageSideMax || png.height > kImageSideMax) {
    png_image_free(&png);
    fail(Errc::kUnsupported, "{}: is {}x{}, sides may have up to {} pixels", name, png.width, png.height,
         kImageSideMax);
  }
  png.format = PNG_FORMAT_RGBA;
  std::vector<uint8_t> rgba(PNG_IMAGE_SIZE(png));
  if (png_image_finish_read(&png, nullptr, rgba.data(), 0, nullptr) == 0) corrupt();
  Image image{{3, png.height, png.width}, {}};
  image.bytes.reserve(rgba.size() / 4 * 3);
  for (size_t i = 0; i < rgba.size(); i += 4) {
    const uint32_t alpha = rgba[i + 3];
    for (size_t c = 0; c < 3; ++c)
      image.bytes.push_back(static_cast<uint8_t>((rgba[i + c] * alpha + 255 * (255 - alpha) + 127) / 255));
  }
  return image;
}

}  // namespace butterfly::train
