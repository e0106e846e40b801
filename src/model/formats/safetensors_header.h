// The JSON header of a safetensors file, read value by value: memory follows what a sound header holds, not
// what a hostile one nests.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/formats/safetensors.h"

namespace butterfly::model {

struct SafetensorsHeader {
  std::vector<SafetensorsTensor> tensors;  // offsets from the start of the data, not yet checked
  std::vector<std::pair<std::string, std::string>> texts;
};

// Throws Error kCorrupt that names `file`, the place, the expected and the found.
SafetensorsHeader parse_safetensors_header(std::string_view json, const std::string& file);

}  // namespace butterfly::model
