// The layers of an image network's TOML file, with blocks written out. For .cc files: the TOML header is
// heavy.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/toml_table.h"

namespace butterfly::train {

// The name under which a description speaks of what comes in: the pixels, or in a block what comes into it.
inline constexpr std::string_view kInputName = "input";

// One layer as it is to be read. Values keep their lines.
struct DescribedLayer {
  toml::table table;
  size_t index = 0;         // in the file or in its block, for a layer without a name
  std::string prefix = {};  // of names, its own and those it speaks of: "stage1.0."
  bool enters = false;      // the first layer of a block
  std::string entry = {};   // with it: the layer that comes into the block; empty: the one before
  std::string alias = {};   // the block's own name, at its last layer
};

struct ImageDescription {
  size_t height = 0, width = 0, channels = 0;
  std::vector<DescribedLayer> layers;
};

// Throws Error kInvalidArgument with file, line, expected and found.
ImageDescription read_image_description(std::string_view text, std::string_view file_name);

}  // namespace butterfly::train
