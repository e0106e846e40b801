// A model file taken apart, to be put together in another way. For tests.
#pragma once
#include <filesystem>
#include <map>
#include <string>

#include "model/formats/gguf_writer.h"
#include "model/formats/model_file.h"

namespace butterfly::runtime::testing {

// Tensors are views of the file: clone() what is to be changed.
struct FileParts {
  explicit FileParts(const std::filesystem::path& path) {
    const model::ModelFile file = model::open_model(path);
    metadata = file.metadata();
    for (const model::NamedTensor& entry : file.tensors()) tensors[entry.name] = file.tensor(entry.name);
  }
  void write(const std::filesystem::path& path) const {
    model::GgufWriter writer(metadata);
    for (const auto& [name, tensor] : tensors) writer.add_tensor(name, tensor);
    writer.write(path);
  }
  model::Metadata metadata;
  std::map<std::string, Tensor> tensors;
};

}  // namespace butterfly::runtime::testing
