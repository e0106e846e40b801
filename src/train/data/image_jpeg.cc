// JPEG by libjpeg. The accurate integer transform gives the same pixels with and without vector instructions.
#include <csetjmp>
#include <cstdio>

#include <jpeglib.h>

#include "base/error.h"
#include "train/data/image_codecs.h"

namespace butterfly::train {
namespace {

// libjpeg leaves by a jump; what it crosses has no destructors.
struct Decoder {
  jpeg_decompress_struct jpeg;
  jpeg_error_mgr errors;
  std::jmp_buf leave;
  char words[JMSG_LENGTH_MAX];
};

void leave_with_words(j_common_ptr common) {
  auto* decoder = static_cast<Decoder*>(common->client_data);
  common->err->format_message(common, decoder->words);
  std::longjmp(decoder->leave, 1);
}

// A warning means that data was missing and made up: refused, as a torn file would otherwise train as grey.
void warn(j_common_ptr common, int level) {
  if (level < 0) leave_with_words(common);
}

bool begin(Decoder& decoder, std::span<const std::byte> bytes) {
  decoder.jpeg.err = jpeg_std_error(&decoder.errors);
  decoder.errors.error_exit = leave_with_words;
  decoder.errors.emit_message = warn;
  decoder.jpeg.client_data = &decoder;
  if (setjmp(decoder.leave) != 0) return false;
  jpeg_create_decompress(&decoder.jpeg);
  decoder.jpeg.client_data = &decoder;
  jpeg_mem_src(&decoder.jpeg, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&decoder.jpeg, TRUE);
  decoder.jpeg.out_color_space = JCS_RGB;
  decoder.jpeg.dct_method = JDCT_ISLOW;
  return true;
}

bool read_rows(Decoder& decoder, uint8_t* out) {
  if (setjmp(decoder.leave) != 0) return false;
  jpeg_start_decompress(&decoder.jpeg);
  while (decoder.jpeg.output_scanline < decoder.jpeg.output_height) {
    JSAMPROW row = out + size_t{decoder.jpeg.output_scanline} * decoder.jpeg.output_width * 3;
    jpeg_read_scanlines(&decoder.jpeg, &row, 1);
  }
  jpeg_finish_decompress(&decoder.jpeg);
  return true;
}

}  // namespace

Image decode_jpeg(std::span<const std::byte> bytes, const std::string& name) {
  Decoder decoder = {};
  const auto corrupt = [&] {
    jpeg_destroy_decompress(&decoder.jpeg);
    fail(Errc::kCorrupt, "{}: {}", name, static_cast<const char*>(decoder.words));
  };
  if (!begin(decoder, bytes)) corrupt();
  const size_t width = decoder.jpeg.image_width, height = decoder.jpeg.image_height;
  if (width > kImageSideMax || height > kImageSideMax) {
    jpeg_destroy_decompress(&decoder.jpeg);
    fail(Errc::kUnsupported, "{}: is {}x{}, sides may have up to {} pixels", name, width, height,
         kImageSideMax);
  }
  Image image{{3, height, width}, std::vector<uint8_t>(height * width * 3)};
  if (!read_rows(decoder, image.bytes.data())) corrupt();
  jpeg_destroy_decompress(&decoder.jpeg);
  return image;
}

}  // namespace butterfly::train
