// Keys of one architecture in a model file, "<arch>.name", read with their bounds.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/formats/model_file.h"

namespace butterfly::model {

// Larger than any model; keeps later products far from overflow.
inline constexpr uint64_t kLayersMax = 4096;
inline constexpr uint64_t kSizeMax = uint64_t{1} << 24;

// Borrows the file. Any thread. Every fault throws Error naming file and key.
class ConfigKeys {
 public:
  explicit ConfigKeys(const ModelFile& file) : file_(file), prefix_(file.architecture() + ".") {}

  std::string key(std::string_view name) const { return prefix_ + std::string(name); }
  bool has(std::string_view name) const { return file_.metadata().has(key(name)); }

  // 1 to `most`; throws Error kCorrupt naming file, key and value.
  size_t size(std::string_view name, uint64_t most) const;
  size_t size_or(std::string_view name, uint64_t otherwise, uint64_t most) const;
  bool is_list(std::string_view name) const;
  // One number, or a list of at least `count` (of which the first are taken): 0 to `most` for each.
  std::vector<size_t> sizes(std::string_view name, size_t count, uint64_t most) const;
  // 0 stands for "none", as an absent key does.
  size_t optional_size(std::string_view name, uint64_t most) const;
  float f32_or(std::string_view name, float otherwise) const;
  std::string string_or(std::string_view name, std::string_view otherwise) const;

 private:
  const ModelFile& file_;
  std::string prefix_;
};

}  // namespace butterfly::model
