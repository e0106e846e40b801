// A model on disk, whatever its format: metadata under GGUF's keys and tensors under GGUF's names.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mapped_file.h"
#include "model/metadata/metadata.h"
#include "tensor/tensor.h"

namespace butterfly::model {

// One tensor of a model, named as GGUF names it. Its values are read when they are asked for.
struct NamedTensor {
  NamedTensor() = default;
  // Values that lie in a file as they are used. `at` is where, in that file.
  NamedTensor(std::string name, Tensor view, uint64_t at);
  // Values that have to be put together: rows in another order, several matrices in one. `make` runs at each
  // load().
  NamedTensor(std::string name, DType dtype, Shape shape, std::function<Tensor()> make);
  // Of an element type this build cannot read: may be listed, not loaded.
  static NamedTensor foreign(std::string name, std::string type, Shape shape, uint64_t bytes, uint64_t at);

  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  uint64_t bytes = 0;
  uint64_t offset = 0;       // of its bytes in their file; 0 where they are put together
  std::string foreign_type;  // empty: the type is `dtype`
  Tensor view;  // of the mapped file, contiguous, not to be written; empty where there is a `make`
  std::function<Tensor()> make;
  // Where the file has another type, which is widened when it is made: that type's name and bytes, of which
  // there are `bytes`.
  std::string stored_type;
  Tensor stored;

  std::string_view type_name() const {
    return !foreign_type.empty() ? foreign_type : !stored_type.empty() ? stored_type : dtype_name(dtype);
  }
  uint64_t count() const { return static_cast<uint64_t>(shape.count()); }
};

// Values of one element type in a file.
struct TypeShare {
  std::string type;
  uint64_t tensor_count = 0;
  uint64_t value_count = 0;
  uint64_t bytes = 0;
};

// What architectures are built from. Matrices are [out, in]. Immutable; copies share the mapping.
class ModelFile {
 public:
  ModelFile(std::string format, std::filesystem::path path, Metadata metadata,
            std::vector<NamedTensor> tensors, std::vector<std::shared_ptr<MappedFile>> files);

  const std::string& format() const { return format_; }  // "gguf v3", "llama2.c v1"
  const std::filesystem::path& path() const { return path_; }
  const Metadata& metadata() const { return metadata_; }
  // general.architecture; throws Error kNotFound when the file does not say.
  const std::string& architecture() const { return metadata_.string("general.architecture"); }

  std::span<const NamedTensor> tensors() const { return tensors_; }
  const NamedTensor* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  // Throws Error kNotFound, and kUnsupported for an element type this build cannot read. Contiguous. A view
  // of the file where it can be; otherwise (rows in another order, say) made anew at each call.
  Tensor tensor(std::string_view name) const;
  // Also checks the shape: kCorrupt, naming both, if it differs.
  Tensor tensor(std::string_view name, const Shape& expected) const;

  // The files with the tensors: one, or the parts of a split or sharded model.
  std::span<const std::shared_ptr<MappedFile>> files() const { return files_; }
  uint64_t file_bytes() const;
  // The bytes of this tensor, or of a part of it, will not be needed again soon. Does nothing for memory that
  // is not a file's.
  void done_with(const Tensor& tensor) const;

  uint64_t parameter_count() const;  // values in all tensors
  uint64_t tensor_bytes() const;
  std::vector<TypeShare> type_shares() const;  // largest first

 private:
  std::string format_;
  std::filesystem::path path_;
  Metadata metadata_;
  std::vector<NamedTensor> tensors_;
  std::vector<std::shared_ptr<MappedFile>> files_;
  std::unordered_map<std::string, size_t> index_;
};

struct OpenModelOptions {
  // Vocabulary for formats that keep it apart (llama2.c). Empty: tok<vocabulary size>.bin or tokenizer.bin
  // beside the model; if neither is there the model opens without a tokenizer.
  std::filesystem::path tokenizer_path = {};
  FileAccess access = FileAccess::kMap;  // of the files with the tensors
};

// Opens the file or folder with the first format that knows it. Throws Error that names the file and what was
// found.
ModelFile open_model(const std::filesystem::path& path, const OpenModelOptions& options = {});

// What a format is asked about: a folder, or a mapped file.
struct ModelSource {
  std::filesystem::path path;
  std::shared_ptr<MappedFile> mapping;  // null for a folder
  std::vector<std::byte> head;          // the first bytes of the file
  bool folder() const { return mapping == nullptr; }
  uint64_t bytes() const { return folder() ? 0 : mapping->bytes().size(); }
};

// One file format. `why_not` answers in words, empty if the source is ours.
struct ModelFormat {
  std::string_view name;
  std::string (*why_not)(const ModelSource& source);
  ModelFile (*open)(const ModelSource& source, const OpenModelOptions& options);
};
std::span<const ModelFormat> model_formats();  // best first

}  // namespace butterfly::model
