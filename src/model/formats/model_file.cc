#include "model/formats/model_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "base/printable.h"
#include "model/formats/byte_reader.h"
#include "model/formats/file_kind.h"

namespace butterfly::model {

NamedTensor::NamedTensor(std::string name_, Tensor view_, uint64_t at)
    : name(std::move(name_)),
      dtype(view_.dtype()),
      shape(view_.shape()),
      bytes(view_.bytes()),
      offset(at),
      view(std::move(view_)) {
  BF_CHECK(view.contiguous()) << "tensor " << name;
}

NamedTensor::NamedTensor(std::string name_, DType dtype_, Shape shape_, std::function<Tensor()> make_)
    : name(std::move(name_)), dtype(dtype_), shape(shape_), make(std::move(make_)) {
  const auto size = dtype_bytes(dtype, count());
  BF_CHECK(size.has_value()) << "tensor " << name << ": " << shape.to_string() << " of " << dtype_name(dtype);
  bytes = *size;
}

NamedTensor NamedTensor::foreign(std::string name, std::string type, Shape shape, uint64_t bytes,
                                 uint64_t at) {
  NamedTensor tensor;
  tensor.name = std::move(name);
  tensor.foreign_type = std::move(type);
  tensor.shape = shape;
  tensor.bytes = bytes;
  tensor.offset = at;
  return tensor;
}

ModelFile::ModelFile(std::string format, std::filesystem::path path, Metadata metadata,
                     std::vector<NamedTensor> tensors, std::vector<std::shared_ptr<MappedFile>> files)
    : format_(std::move(format)),
      path_(std::move(path)),
      metadata_(std::move(metadata)),
      tensors_(std::move(tensors)),
      files_(std::move(files)) {
  for (size_t i = 0; i < tensors_.size(); ++i) index_.emplace(tensors_[i].name, i);
}

const NamedTensor* ModelFile::find(std::string_view name) const {
  const auto at = index_.find(std::string(name));
  return at == index_.end() ? nullptr : &tensors_[at->second];
}

Tensor ModelFile::tensor(std::string_view name) const {
  const NamedTensor* found = find(name);
  if (!found)
    fail(Errc::kNotFound, "{}: tensor {}: expected, found no such tensor among {}", path_.string(),
         printable(name), tensors_.size());
  if (!found->foreign_type.empty())
    fail(Errc::kUnsupported, "{}: tensor {}: type {} cannot be read by this build", path_.string(),
         printable(name), found->foreign_type);
  if (found->view) return found->view;
  Tensor made = found->make();
  BF_CHECK(made.contiguous() && made.dtype() == found->dtype && made.shape() == found->shape)
      << "tensor " << found->name << " was made as " << made.shape().to_string();
  return made;
}

Tensor ModelFile::tensor(std::string_view name, const Shape& expected) const {
  const NamedTensor* found = find(name);
  if (found && found->shape != expected)
    fail(Errc::kCorrupt, "{}: tensor {}: expected shape {}, found {}", path_.string(), printable(name),
         expected.to_string(), found->shape.to_string());
  return tensor(name);
}

uint64_t ModelFile::parameter_count() const {
  uint64_t count = 0;
  for (const NamedTensor& entry : tensors_) count += entry.count();
  return count;
}

uint64_t ModelFile::tensor_bytes() const {
  uint64_t bytes = 0;
  for (const NamedTensor& entry : tensors_) bytes += entry.bytes;
  return bytes;
}

uint64_t ModelFile::file_bytes() const {
  uint64_t bytes = 0;
  for (const auto& file : files_) bytes += file->bytes().size();
  return bytes;
}

void ModelFile::done_with(const Tensor& tensor) const {
  for (const auto& file : files_) {
    const std::byte* begin = file->bytes().data();
    if (tensor.raw() >= begin && tensor.raw() < begin + file->bytes().size())
      file->done_with(static_cast<size_t>(tensor.raw() - begin), tensor.bytes());
  }
}

std::vector<TypeShare> ModelFile::type_shares() const {
  std::vector<TypeShare> shares;
  for (const NamedTensor& entry : tensors_) {
    const std::string_view type = entry.type_name();
    auto at =
        std::find_if(shares.begin(), shares.end(), [&](const auto& share) { return share.type == type; });
    if (at == shares.end()) at = shares.insert(shares.end(), TypeShare{.type = std::string(type)});
    at->tensor_count += 1;
    at->value_count += entry.count();
    at->bytes += entry.bytes;
  }
  std::stable_sort(shares.begin(), shares.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return shares;
}

ModelFile open_model(const std::filesystem::path& path, const OpenModelOptions& options) {
  ModelSource source{.path = path, .mapping = nullptr, .head = {}};
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    source.mapping = MappedFile::open(path, options.access);
    source.head = copy_head(source.mapping->bytes(), kFileHeadBytes);
  }
  std::string refusals;
  for (const ModelFormat& format : model_formats()) {
    const std::string why_not = format.why_not(source);
    if (why_not.empty()) return format.open(source, options);
    refusals += fmt::format("{}{}: {}", refusals.empty() ? "" : "; ", format.name, why_not);
  }
  fail(Errc::kUnsupported, "{}: expected a model, found {} ({})", path.string(),
       source.folder() ? "a folder" : describe_unknown_file(source.head), refusals);
}

}  // namespace butterfly::model
