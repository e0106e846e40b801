// The model file formats, best first. The first row that does not object is used.
#include "model/formats/gguf.h"
#include "model/formats/llama2c.h"
#include "model/formats/model_file.h"

namespace butterfly::model {
namespace {

std::string gguf_why_not(std::span<const std::byte> head, uint64_t) {
  return is_gguf(head) ? "" : "does not begin with 'GGUF'";
}

ModelFile gguf_open(std::shared_ptr<MappedFile> mapping, const OpenModelOptions&) {
  const GgufFile file = GgufFile::open(mapping);
  std::vector<NamedTensor> tensors;
  tensors.reserve(file.tensors().size());
  for (const GgufTensor& info : file.tensors())
    tensors.push_back({info.name, file.tensor(info), info.offset});
  return ModelFile("gguf v" + std::to_string(file.version()), mapping->path(), file.metadata(),
                   std::move(tensors), mapping);
}

constexpr ModelFormat kFormats[] = {
    {"gguf", gguf_why_not, gguf_open},
    {"llama2.c", llama2c_why_not, llama2c_open},
};

}  // namespace

std::span<const ModelFormat> model_formats() { return kFormats; }

}  // namespace butterfly::model
