// GGUF as a row of the model format table: one file, or a model split into parts.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "model/formats/model_file.h"

namespace butterfly::model {

std::string gguf_why_not(const ModelSource& source);
// A model split as llama.cpp splits it ("name-00001-of-00003.gguf", keys split.no, split.count and
// split.tensors.count) is opened by its first part: the others are looked for beside it. Keys come from the
// first part, without split.*. Throws Error that names the part that is missing or does not belong.
ModelFile gguf_open(const ModelSource& source, const OpenModelOptions& options);

// "name", 2 and 3 of "name-00002-of-00003.gguf"; nothing for other names.
struct GgufPartName {
  std::filesystem::path prefix;  // with its folder
  uint32_t number = 0;           // from 1
  uint32_t count = 0;
};
std::optional<GgufPartName> parse_gguf_part(const std::filesystem::path& path);
std::filesystem::path gguf_part_path(const std::filesystem::path& prefix, uint32_t number, uint32_t count);

}  // namespace butterfly::model
