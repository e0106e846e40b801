// safetensors files: named tensors over a mapped file, as Hugging Face models keep them.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "tensor/tensor.h"

namespace butterfly::model {

inline constexpr uint64_t kSafetensorsHeaderBytesMax = 100'000'000;  // the format's own limit
inline constexpr size_t kSafetensorsRankMax = 64;                    // of a tensor that is only listed

struct SafetensorsTensor {
  std::string name;
  std::string type;            // as the file says: "BF16", "F8_E4M3"
  std::optional<DType> dtype;  // nothing where this build cannot read the type
  std::vector<int64_t> sizes;  // outermost first
  uint64_t offset = 0;         // from the start of the file
  uint64_t bytes = 0;

  Shape shape() const;  // of at most kMaxRank axes: more are folded into the first
};

// A parsed header plus the memory it describes. Immutable; copies share the mapping.
//
// Opening checks everything the header says: each name once, sizes and offsets agree, and the tensors tile
// the data from its first to its last byte, as the format demands. Values are not looked at.
class SafetensorsFile {
 public:
  // Throws Error: kNotFound or kIo from the file system, kCorrupt for a broken file.
  static SafetensorsFile open(const std::filesystem::path& path, FileAccess access = FileAccess::kMap);
  static SafetensorsFile open(std::shared_ptr<MappedFile> mapping);
  // The same over bytes in memory, which must outlive the result and its tensors. `name` stands for the file.
  static SafetensorsFile parse(std::span<const std::byte> bytes, std::string name);

  std::span<const SafetensorsTensor> tensors() const { return tensors_; }  // in the order of their bytes
  // The strings under __metadata__, in the order of the file.
  std::span<const std::pair<std::string, std::string>> texts() const { return texts_; }
  // A view of the file's bytes, not to be written. Where the bytes are not aligned to their type (the format
  // allows it) a copy. Throws Error kUnsupported for a type this build cannot read.
  Tensor tensor(const SafetensorsTensor& info) const;
  // Whether tensor() gives a view.
  bool aligned(const SafetensorsTensor& info) const;
  const std::string& name() const { return name_; }
  const std::shared_ptr<MappedFile>& mapping() const { return mapping_; }  // null after parse()

 private:
  std::string name_;
  std::vector<SafetensorsTensor> tensors_;
  std::vector<std::pair<std::string, std::string>> texts_;
  std::shared_ptr<MappedFile> mapping_;
  std::span<const std::byte> bytes_;
};

// True if a file that begins with these bytes looks like safetensors: a header length, then JSON.
bool is_safetensors(std::span<const std::byte> head);

}  // namespace butterfly::model
