// The two libraries that decode images, each behind one function. RGB bytes come out.
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "train/data/image.h"

namespace butterfly::train {

// `name` is for messages. Throw Error: kCorrupt in the library's words, kUnsupported when a side is too long.
Image decode_png(std::span<const std::byte> bytes, const std::string& name);
Image decode_jpeg(std::span<const std::byte> bytes, const std::string& name);

}  // namespace butterfly::train
