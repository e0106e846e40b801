// A model on disk, whatever its format: metadata under GGUF's keys and tensors under GGUF's names.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mapped_file.h"
#include "model/formats/metadata.h"
#include "tensor/tensor.h"

namespace butterfly::model {

struct NamedTensor {
  std::string name;
  Tensor tensor;        // a view of the mapped file; must not be written
  uint64_t offset = 0;  // of its bytes in the file
};

// Values of one element type in a file.
struct TypeShare {
  DType dtype;
  uint64_t tensor_count = 0;
  uint64_t value_count = 0;
  uint64_t bytes = 0;
};

// What architectures are built from. Matrices are [out, in]. Immutable; copies share the mapping.
class ModelFile {
 public:
  ModelFile(std::string format, std::filesystem::path path, Metadata metadata,
            std::vector<NamedTensor> tensors, std::shared_ptr<MappedFile> mapping);

  const std::string& format() const { return format_; }  // "gguf v3", "llama2.c v1"
  const std::filesystem::path& path() const { return path_; }
  const Metadata& metadata() const { return metadata_; }
  // general.architecture; throws Error kNotFound when the file does not say.
  const std::string& architecture() const { return metadata_.string("general.architecture"); }

  std::span<const NamedTensor> tensors() const { return tensors_; }
  const NamedTensor* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  // Throws Error kNotFound.
  Tensor tensor(std::string_view name) const;
  // Also checks the shape: kCorrupt, naming both, if it differs.
  Tensor tensor(std::string_view name, const Shape& expected) const;

  const std::shared_ptr<MappedFile>& mapping() const { return mapping_; }

  uint64_t parameter_count() const;  // values in all tensors
  uint64_t tensor_bytes() const;
  std::vector<TypeShare> type_shares() const;  // largest first

 private:
  std::string format_;
  std::filesystem::path path_;
  Metadata metadata_;
  std::vector<NamedTensor> tensors_;
  std::shared_ptr<MappedFile> mapping_;
  std::unordered_map<std::string, size_t> index_;
};

struct OpenModelOptions {
  // Vocabulary for formats that keep it apart (llama2.c). Empty: tok<vocabulary size>.bin or tokenizer.bin
  // beside the model; if neither is there the model opens without a tokenizer.
  std::filesystem::path tokenizer_path;
};

// Opens the file with the first format that knows it. Throws Error that names the file and what was found.
ModelFile open_model(const std::filesystem::path& path, const OpenModelOptions& options = {});

// One file format. `why_not` sees the first bytes of the file and its size, and answers in words, empty if it
// is ours.
struct ModelFormat {
  std::string_view name;
  std::string (*why_not)(std::span<const std::byte> head, uint64_t file_bytes);
  ModelFile (*open)(std::shared_ptr<MappedFile> mapping, const OpenModelOptions& options);
};
std::span<const ModelFormat> model_formats();  // best first

}  // namespace butterfly::model
