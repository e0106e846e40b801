// GGUF model files, versions 2 and 3, little-endian: metadata and tensor views over a mapped file.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "model/metadata/metadata.h"
#include "tensor/tensor.h"

namespace butterfly::model {

inline constexpr uint32_t kGgufDefaultAlignment = 32;
// Bounds on what a header may ask for. Real files stay far below; a hostile one is refused before memory is
// taken.
inline constexpr uint64_t kGgufKeyBytesMax = 65535;                // the format's own limit
inline constexpr uint64_t kGgufTensorNameBytesMax = 1024;          // ggml's is 64
inline constexpr uint64_t kGgufArrayBytesMax = uint64_t{1} << 30;  // one array of numbers or one string
inline constexpr uint32_t kGgufArrayDepthMax = 8;
inline constexpr uint32_t kGgufRankMax = 4;
inline constexpr uint64_t kGgufAlignmentMin = 8;
inline constexpr uint64_t kGgufAlignmentMax = uint64_t{1} << 24;

// A type of blocks that is read as another one, which has room for each of its values exactly.
struct WidenedType {
  uint32_t id;
  std::string_view name;
  uint32_t block_values, block_bytes;
  DType dtype;  // as which
  void (*widen)(const std::byte* from, std::byte* to, size_t count);
};
// Null: ggml's type of this number is none.
const WidenedType* widened_type(uint32_t id);

struct GgufTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;                          // outermost first; GGUF stores innermost first
  uint64_t offset = 0;                  // from the start of the file
  uint64_t bytes = 0;                   // in the file
  const WidenedType* stored = nullptr;  // null: as `dtype`
};

// A parsed header plus the memory it describes. Immutable after construction; copies share the mapping.
//
// Opening checks everything the header says against the file: a tensor that is returned lies inside the file,
// aligned, overlapping no other. Tensor values themselves are not looked at.
class GgufFile {
 public:
  // Throws Error: kNotFound / kIo from the file system, kCorrupt for a broken file, kUnsupported for a sound
  // one that this build cannot read (version, element type, byte order).
  static GgufFile open(const std::filesystem::path& path, FileAccess access = FileAccess::kMap);
  static GgufFile open(std::shared_ptr<MappedFile> mapping);
  // The same over bytes in memory, which must outlive the result and its tensors. `name` stands for the file.
  static GgufFile parse(std::span<const std::byte> bytes, std::string name);

  uint32_t version() const { return version_; }
  uint64_t alignment() const { return alignment_; }
  uint64_t data_offset() const { return data_offset_; }  // where tensor data starts
  const Metadata& metadata() const { return metadata_; }
  // For whoever needs the rest no more. Copies of metadata are large, and a variant of so many types must not
  // run out of memory half-way (libstdc++ 12 then frees what it never had).
  Metadata take_metadata() { return std::move(metadata_); }
  std::span<const GgufTensor> tensors() const { return tensors_; }
  // A view of the file's bytes; keeps the mapping alive. Must not be written.
  Tensor tensor(const GgufTensor& info) const;
  const std::shared_ptr<MappedFile>& mapping() const { return mapping_; }  // null after parse()

 private:
  friend class GgufParser;
  uint32_t version_ = 0;
  uint64_t alignment_ = kGgufDefaultAlignment;
  uint64_t data_offset_ = 0;
  Metadata metadata_;
  std::vector<GgufTensor> tensors_;
  std::shared_ptr<MappedFile> mapping_;
  std::span<const std::byte> bytes_;
};

// True if a file that begins with these bytes claims to be GGUF.
bool is_gguf(std::span<const std::byte> head);

// ggml's name for a tensor type number, also for those this build cannot read; empty if the number is
// unknown.
std::string_view ggml_type_name(uint32_t id);

}  // namespace butterfly::model
