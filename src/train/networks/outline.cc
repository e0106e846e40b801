#include "train/networks/outline.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>
#include <sstream>

#include "base/error.h"
#include "model/formats/gguf_writer.h"

namespace butterfly::train {
namespace {

constexpr const char* kTensorsKey = "butterfly.outline.tensors";  // a line each: name, sizes

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Counts are checked before anything is allocated: the file came from another machine.
model::NamedTensor tensor_of_line(const std::string& line, const std::string& where) {
  std::istringstream in(line);
  std::string name;
  in >> name;
  std::vector<int64_t> sizes;
  int64_t product = 1;
  for (int64_t size = 0; in >> size;) {
    if (size <= 0 || size > std::numeric_limits<int32_t>::max() || product > (int64_t{1} << 40) / size)
      fail(Errc::kCorrupt, "{}: tensor '{}' has a size {}", where, name, size);
    product *= size;
    sizes.push_back(size);
  }
  if (name.empty() || sizes.empty() || sizes.size() > 4 || !in.eof())
    fail(Errc::kCorrupt, "{}: expected a name and its sizes, found '{}'", where, line);
  const Shape shape{std::span<const int64_t>(sizes)};
  return model::NamedTensor(name, DType::kF32, shape, [shape] { return Tensor::zeros(DType::kF32, shape); });
}

}  // namespace

std::vector<std::string> outline_names(const model::Metadata& metadata) {
  return lines_of(metadata.string(kOutlineNamesKey));
}

std::string names_text(std::span<const std::string> names) {
  std::string text;
  for (const std::string& name : names) text += name + "\n";
  return text;
}

void write_outline(const Transformer& whole, std::span<const std::string> names,
                   const std::filesystem::path& path) {
  const std::set<std::string> learnt(names.begin(), names.end());
  const model::ModelFile& file = whole.file();
  model::Metadata metadata = file.metadata();
  std::string tensors;
  for (const model::NamedTensor& tensor : file.tensors()) {
    if (!learnt.contains(tensor.name)) continue;
    tensors += tensor.name;
    for (size_t d = 0; d < tensor.shape.rank(); ++d) tensors += fmt::format(" {}", tensor.shape[d]);
    tensors += "\n";
  }
  metadata.set(kTensorsKey, tensors);
  metadata.set(kOutlineNamesKey, names_text(names));
  model::GgufWriter writer(std::move(metadata));
  for (const model::NamedTensor& tensor : file.tensors()) {
    if (learnt.contains(tensor.name)) continue;
    const auto found = whole.weights().find(tensor.name);
    writer.add_tensor(tensor.name, found != whole.weights().end() ? found->second : file.tensor(tensor.name));
  }
  writer.write(path);
}

NetworkOutline read_outline(const std::filesystem::path& path) {
  const model::ModelFile stored = model::open_model(path);
  std::vector<model::NamedTensor> tensors;
  for (const std::string& line : lines_of(stored.metadata().string(kTensorsKey)))
    tensors.push_back(tensor_of_line(line, path.string()));
  // The file may go away: what is small is copied.
  for (const model::NamedTensor& tensor : stored.tensors())
    tensors.emplace_back(tensor.name, stored.tensor(tensor.name).clone(), 0);
  std::vector<std::string> names = outline_names(stored.metadata());
  return {model::ModelFile("memory", "outline of a network", stored.metadata(), std::move(tensors), {}),
          std::move(names)};
}

size_t piece_of_parameter(const model::ModelFile& file, size_t layers, bool tied, const std::string& name) {
  if (name.starts_with("blk.")) {
    size_t layer = layers;
    std::from_chars(name.data() + 4, name.data() + name.size(), layer);
    if (layer >= layers) fail(Errc::kUnsupported, "parameter {}: the model has {} blocks", name, layers);
    return 1 + layer;
  }
  if (name == "token_embd.weight" && tied) return layers + 1;
  return model::range_needs({0, 0}, layers, file, name) ? 0 : layers + 1;
}

}  // namespace butterfly::train
