// Writes GGUF version 3 files. Tensor data is streamed, so a model larger than memory can be written.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "model/formats/byte_sink.h"
#include "model/formats/gguf.h"
#include "model/metadata/metadata.h"

namespace butterfly::model {

// Collects keys and tensors, then writes them in one go. Shares the memory of tensors. One thread.
class GgufWriter {
 public:
  // Called once during write(); must hand exactly the tensor's bytes to the sink, in any number of pieces.
  using Source = std::function<void(ByteSink& sink)>;

  // A key general.alignment sets the alignment (32 without it).
  explicit GgufWriter(Metadata metadata) : metadata_(std::move(metadata)) {}

  // Throws Error kInvalidArgument for a name given twice, a bad shape or a type GGUF has no number for.
  void add_tensor(std::string name, DType dtype, Shape shape, Source source);
  // Contiguous tensors only; the tensor's memory is kept alive until the writer dies.
  void add_tensor(std::string name, const Tensor& tensor);

  // Size of the file that write() will make.
  uint64_t file_bytes() const;

  // Writes a temporary file beside `path`, syncs it and renames it over `path`: other readers see the old
  // file or the whole new one. On any error the temporary file is removed and `path` is as before.
  void write(const std::filesystem::path& path) const;
  void write(ByteSink& sink) const;

 private:
  struct Entry {
    GgufTensor info;  // offset from the start of the data
    Source source;
  };
  uint64_t alignment() const;
  std::vector<std::byte> header() const;  // up to the first tensor, padded

  Metadata metadata_;
  std::vector<Entry> entries_;
};

}  // namespace butterfly::model
