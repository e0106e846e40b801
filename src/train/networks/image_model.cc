#include "train/networks/image_model.h"

#include <cstring>

#include "base/error.h"
#include "base/mapped_file.h"
#include "model/formats/file_type.h"
#include "model/formats/gguf_writer.h"

namespace butterfly::train {
namespace {

constexpr const char* kDescriptionKey = "image.network";
constexpr const char* kClassesKey = "image.classes";

}  // namespace

void write_image_model(const ImageNetwork& network, std::string_view description,
                       const std::vector<std::string>& classes, const std::filesystem::path& path) {
  model::Metadata metadata("image network");
  metadata.set("general.architecture", std::string(kImageArchitecture));
  metadata.set("general.file_type", model::file_type_number(DType::kF32));
  metadata.set(kDescriptionKey, std::string(description));
  if (!classes.empty()) metadata.set(kClassesKey, model::string_array(classes));
  model::GgufWriter writer(std::move(metadata));
  for (const auto& [name, tensor] : network.weights()) writer.add_tensor(name, tensor);
  writer.write(path);
}

std::string image_description(const model::ModelFile& file) {
  const std::string text = file.metadata().string_or(kDescriptionKey, "");
  if (text.empty())
    fail(Errc::kCorrupt, "{}: expected a key {} with the network's description", file.path().string(),
         kDescriptionKey);
  return text;
}

void read_image_weights(const model::ModelFile& file, ImageNetwork& network) {
  for (const auto& [name, weight] : network.weights()) {
    const Tensor stored = file.tensor(name, weight.shape());
    if (stored.dtype() != DType::kF32)
      fail(Errc::kUnsupported, "{}: tensor {}: expected type F32, found {}", file.path().string(), name,
           dtype_name(stored.dtype()));
    Tensor into = weight;
    MappedFile::guard([&] { std::memcpy(into.raw(), stored.raw(), stored.bytes()); });
  }
}

}  // namespace butterfly::train
