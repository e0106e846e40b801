#include "kernels/quant/testing/ggml_vectors.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/json_text.h"
#include "base/testing/source_tree.h"

namespace butterfly::kernels::testing {
namespace {

const std::filesystem::path kPath = shared_data("quant-vectors/ggml-quants.safetensors");

}  // namespace

std::optional<GgmlVectors> GgmlVectors::load() {
  std::ifstream in(kPath, std::ios::binary);
  if (!in) return std::nullopt;
  GgmlVectors vectors;
  vectors.file_.assign(std::istreambuf_iterator<char>(in), {});
  if (vectors.source().size() != kVectorRows * kVectorRowValues)
    throw std::runtime_error("src is not [16, 256]");
  return vectors;
}

std::string_view GgmlVectors::tensor(const std::string& name) const {
  uint64_t header_size = 0;
  if (file_.size() < sizeof header_size) throw std::runtime_error("no safetensors header");
  std::memcpy(&header_size, file_.data(), sizeof header_size);
  const auto header = json_of_text<nlohmann::json>(file_.substr(sizeof header_size, header_size));
  const auto offsets = header.at(name).at("data_offsets").get<std::vector<size_t>>();
  const auto data = std::string_view(file_).substr(sizeof header_size + header_size);
  if (offsets.at(0) > offsets.at(1) || offsets.at(1) > data.size())
    throw std::runtime_error(name + " ends outside");
  return data.substr(offsets[0], offsets[1] - offsets[0]);
}

std::vector<float> GgmlVectors::floats(const std::string& name) const {
  const std::string_view data = tensor(name);
  std::vector<float> values(data.size() / sizeof(float));
  std::memcpy(values.data(), data.data(), values.size() * sizeof(float));
  return values;
}

std::vector<std::byte> GgmlVectors::bytes(std::string_view type) const {
  const std::string_view data = tensor(std::string(type) + ".bytes");
  std::vector<std::byte> bytes(data.size());
  std::memcpy(bytes.data(), data.data(), data.size());
  return bytes;
}

std::vector<float> GgmlVectors::dequantized(std::string_view type) const {
  return floats(std::string(type) + ".dequantized");
}

}  // namespace butterfly::kernels::testing
