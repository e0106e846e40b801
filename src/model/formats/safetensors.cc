#include "model/formats/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/printable.h"
#include "model/formats/byte_reader.h"
#include "model/formats/file_kind.h"
#include "model/formats/safetensors_header.h"

namespace butterfly::model {
namespace {

struct SafetensorsType {
  std::string_view name;
  uint32_t bytes;
  std::optional<DType> dtype;
};

constexpr SafetensorsType kTypes[] = {
    {"F32", 4, DType::kF32},   {"F16", 2, DType::kF16},      {"BF16", 2, DType::kBF16},
    {"I8", 1, DType::kI8},     {"I16", 2, DType::kI16},      {"I32", 4, DType::kI32},
    {"I64", 8, DType::kI64},   {"U8", 1, DType::kU8},        {"F64", 8, std::nullopt},
    {"U16", 2, std::nullopt},  {"U32", 4, std::nullopt},     {"U64", 8, std::nullopt},
    {"BOOL", 1, std::nullopt}, {"F8_E4M3", 1, std::nullopt}, {"F8_E5M2", 1, std::nullopt},
    {"C64", 8, std::nullopt},  {"F8_E8M0", 1, std::nullopt},
};

// Fills in the type and checks that shape and offsets say the same. A type nobody told us of may have any
// size.
void check_tensor(SafetensorsTensor& tensor, const std::string& file) {
  uint64_t product = 1;  // of the sizes that are not 0, so that no order of multiplying overflows
  bool empty = false;
  for (const int64_t size : tensor.sizes) {
    if (size == 0) empty = true;
    const auto next = checked_mul(product, std::max<uint64_t>(1, static_cast<uint64_t>(size)));
    if (!next || *next > uint64_t{1} << 62)
      fail(Errc::kCorrupt, "{}: tensor {}: the number of values does not fit into 62 bits", file,
           printable(tensor.name));
    product = *next;
  }
  const uint64_t count = empty ? 0 : product;
  const auto* row = std::find_if(std::begin(kTypes), std::end(kTypes),
                                 [&](const SafetensorsType& type) { return type.name == tensor.type; });
  if (row == std::end(kTypes)) return;
  const auto bytes = checked_mul(count, row->bytes);
  if (!bytes || *bytes != tensor.bytes)
    fail(Errc::kCorrupt, "{}: tensor {}: {} values of {} take {} bytes, data_offsets give it {}", file,
         printable(tensor.name), count, row->name, bytes ? fmt::format("{}", *bytes) : "more than 2^64",
         tensor.bytes);
  // Without values there is nothing to view, and axes beyond what a Shape holds are only for the list.
  if (count > 0 && tensor.sizes.size() <= kMaxRank) tensor.dtype = row->dtype;
}

// Every byte of the data belongs to one tensor.
void check_tiling(const std::vector<SafetensorsTensor>& sorted, uint64_t data_bytes,
                  const std::string& file) {
  uint64_t at = 0;
  for (const SafetensorsTensor& tensor : sorted) {
    if (tensor.offset != at)
      fail(Errc::kCorrupt,
           "{}: tensor {}: expected to begin at byte {} of the data, where the one before ends, found {}",
           file, printable(tensor.name), at, tensor.offset);
    at += tensor.bytes;  // cannot overflow: begin + bytes came from the header as one number
  }
  if (at != data_bytes)
    fail(Errc::kCorrupt, "{}: expected {} bytes of data after the header, found {}", file, at, data_bytes);
}

}  // namespace

Shape SafetensorsTensor::shape() const {
  if (sizes.size() <= kMaxRank) return Shape(std::span<const int64_t>(sizes));
  std::vector<int64_t> folded(sizes.end() - kMaxRank, sizes.end());
  for (size_t i = 0; i < sizes.size() - kMaxRank; ++i) folded[0] *= sizes[i];
  return Shape(std::span<const int64_t>(folded));
}

bool is_safetensors(std::span<const std::byte> head) {
  uint64_t length;
  if (head.size() < sizeof length + 1) return false;
  std::memcpy(&length, head.data(), sizeof length);
  return head[sizeof length] == std::byte{'{'} && length <= kSafetensorsHeaderBytesMax;
}

SafetensorsFile SafetensorsFile::parse(std::span<const std::byte> bytes, std::string name) {
  ByteReader in(bytes, name);
  in.set_place("safetensors header");
  const auto length = in.read<uint64_t>("length");
  if (length > kSafetensorsHeaderBytesMax)
    in.corrupt("length: expected at most {} bytes, found {}", kSafetensorsHeaderBytesMax, length);
  if (length > in.remaining())
    in.corrupt("length: says {} bytes, the file has {} more", length, in.remaining());
  const std::string json = in.read_string(length, "text");
  if (json.empty() || json[0] != '{') in.corrupt("expected '{{' first, found '{}'", printable(json, 1));
  SafetensorsHeader header = parse_safetensors_header(json, name);
  const uint64_t data = in.at();

  SafetensorsFile file;
  file.tensors_ = std::move(header.tensors);
  file.texts_ = std::move(header.texts);
  for (SafetensorsTensor& tensor : file.tensors_) check_tensor(tensor, name);
  std::sort(file.tensors_.begin(), file.tensors_.end(), [](const auto& a, const auto& b) {
    return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
  });
  check_tiling(file.tensors_, bytes.size() - data, name);
  for (SafetensorsTensor& tensor : file.tensors_) tensor.offset += data;
  file.name_ = std::move(name);
  file.bytes_ = bytes;
  return file;
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path, FileAccess access) {
  return open(MappedFile::open(path, access));
}

SafetensorsFile SafetensorsFile::open(std::shared_ptr<MappedFile> mapping) {
  const std::vector<std::byte> head = copy_head(mapping->bytes(), kFileHeadBytes);
  if (!is_safetensors(head) && is_known_other_file(head))
    fail(Errc::kCorrupt, "{}: expected a safetensors file, found {}", mapping->path().string(),
         describe_unknown_file(head));
  SafetensorsFile file = parse(mapping->bytes(), mapping->path().string());
  file.mapping_ = std::move(mapping);
  return file;
}

bool SafetensorsFile::aligned(const SafetensorsTensor& info) const {
  const auto address = reinterpret_cast<uintptr_t>(bytes_.data() + info.offset);
  return !info.dtype || address % dtype_info(*info.dtype).block_bytes == 0;
}

Tensor SafetensorsFile::tensor(const SafetensorsTensor& info) const {
  if (!info.dtype)
    fail(Errc::kUnsupported, "{}: tensor {}: type {} of shape {} cannot be read by this build", name_,
         printable(info.name), printable(info.type), info.shape().to_string());
  const auto offset = static_cast<size_t>(info.offset);
  const auto bytes = static_cast<size_t>(info.bytes);
  if (!aligned(info)) {
    Tensor copy = Tensor::zeros(*info.dtype, info.shape());
    MappedFile::guard([&] { std::memcpy(copy.raw(), bytes_.data() + offset, bytes); });
    return copy;
  }
  if (mapping_) return Tensor(Buffer::mapped(mapping_, offset, bytes), *info.dtype, info.shape());
  auto* data = const_cast<std::byte*>(bytes_.data() + offset);  // borrowed; nobody writes model files
  return Tensor(Buffer::adopt(data, bytes, [](std::byte*) {}), *info.dtype, info.shape());
}

}  // namespace butterfly::model
