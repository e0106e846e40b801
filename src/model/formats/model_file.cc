#include "model/formats/model_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "model/formats/byte_reader.h"
#include "model/formats/file_kind.h"

namespace butterfly::model {

ModelFile::ModelFile(std::string format, std::filesystem::path path, Metadata metadata,
                     std::vector<NamedTensor> tensors, std::shared_ptr<MappedFile> mapping)
    : format_(std::move(format)),
      path_(std::move(path)),
      metadata_(std::move(metadata)),
      tensors_(std::move(tensors)),
      mapping_(std::move(mapping)) {
  for (size_t i = 0; i < tensors_.size(); ++i) index_.emplace(tensors_[i].name, i);
}

const NamedTensor* ModelFile::find(std::string_view name) const {
  const auto at = index_.find(std::string(name));
  return at == index_.end() ? nullptr : &tensors_[at->second];
}

Tensor ModelFile::tensor(std::string_view name) const {
  const NamedTensor* found = find(name);
  if (!found)
    fail(Errc::kNotFound, "{}: tensor {}: expected, found no such tensor among {}", path_.string(), name,
         tensors_.size());
  return found->tensor;
}

Tensor ModelFile::tensor(std::string_view name, const Shape& expected) const {
  Tensor found = tensor(name);
  if (found.shape() != expected)
    fail(Errc::kCorrupt, "{}: tensor {}: expected shape {}, found {}", path_.string(), name,
         expected.to_string(), found.shape().to_string());
  return found;
}

uint64_t ModelFile::parameter_count() const {
  uint64_t count = 0;
  for (const NamedTensor& entry : tensors_) count += static_cast<uint64_t>(entry.tensor.count());
  return count;
}

uint64_t ModelFile::tensor_bytes() const {
  uint64_t bytes = 0;
  for (const NamedTensor& entry : tensors_) bytes += entry.tensor.bytes();
  return bytes;
}

std::vector<TypeShare> ModelFile::type_shares() const {
  std::vector<TypeShare> shares;
  for (const NamedTensor& entry : tensors_) {
    const DType dtype = entry.tensor.dtype();
    auto at =
        std::find_if(shares.begin(), shares.end(), [&](const auto& share) { return share.dtype == dtype; });
    if (at == shares.end()) at = shares.insert(shares.end(), TypeShare{.dtype = dtype});
    at->tensor_count += 1;
    at->value_count += static_cast<uint64_t>(entry.tensor.count());
    at->bytes += entry.tensor.bytes();
  }
  std::stable_sort(shares.begin(), shares.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return shares;
}

ModelFile open_model(const std::filesystem::path& path, const OpenModelOptions& options) {
  auto mapping = MappedFile::open(path);
  const std::vector<std::byte> head = copy_head(mapping->bytes(), kFileHeadBytes);
  std::string refusals;
  for (const ModelFormat& format : model_formats()) {
    const std::string why_not = format.why_not(head, mapping->bytes().size());
    if (why_not.empty()) return format.open(std::move(mapping), options);
    refusals += fmt::format("{}{}: {}", refusals.empty() ? "" : "; ", format.name, why_not);
  }
  fail(Errc::kUnsupported, "{}: expected a model file, found {} ({})", path.string(),
       describe_unknown_file(head), refusals);
}

}  // namespace butterfly::model
