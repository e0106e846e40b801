#include "model/formats/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <unordered_set>

#include "base/checked.h"
#include "base/error.h"
#include "base/printable.h"
#include "model/formats/byte_reader.h"
#include "model/formats/file_kind.h"

namespace butterfly::model {
namespace {

// The least a key or a tensor can take in the file: bounds the counts before anything is allocated.
constexpr uint64_t kKeyBytesMin = 8 + 1 + 4 + 1;  // length, one letter, type, one byte
constexpr uint64_t kTensorBytesMin =
    8 + 1 + 4 + 8 + 4 + 8;  // length, one letter, rank, one size, type, offset

std::string read_string(ByteReader& in, uint64_t bytes_max, std::string_view what) {
  const auto length = in.read<uint64_t>(what);
  if (length > bytes_max)
    in.corrupt("{}: expected at most {} bytes, found a length of {}", what, bytes_max, length);
  return in.read_string(length, what);
}

MetaType read_type(ByteReader& in, std::string_view what) {
  const auto id = in.read<uint32_t>(what);
  if (id >= kMetaTypeCount) in.corrupt("{}: expected 0 to {}, found {}", what, kMetaTypeCount - 1, id);
  return static_cast<MetaType>(id);
}

bool read_bool(ByteReader& in) {
  const auto byte = in.read<uint8_t>("bool");
  if (byte > 1) in.corrupt("bool: expected 0 or 1, found {}", byte);
  return byte != 0;
}

template <typename T>
std::vector<T> read_numbers(ByteReader& in, uint64_t count) {
  const auto bytes = checked_mul(count, sizeof(T));
  if (!bytes || *bytes > kGgufArrayBytesMax)
    in.corrupt("array: expected at most {} bytes, found {} elements of {}", kGgufArrayBytesMax, count,
               sizeof(T));
  in.check(*bytes, "array");
  std::vector<T> values(static_cast<size_t>(count));
  in.read_into(std::span<T>(values), "array");
  return values;
}

MetaArray read_array(ByteReader& in, uint32_t depth);

MetaElements read_elements(ByteReader& in, MetaType type, uint64_t count, uint32_t depth) {
  switch (type) {
    case MetaType::kU8:
      return read_numbers<uint8_t>(in, count);
    case MetaType::kI8:
      return read_numbers<int8_t>(in, count);
    case MetaType::kU16:
      return read_numbers<uint16_t>(in, count);
    case MetaType::kI16:
      return read_numbers<int16_t>(in, count);
    case MetaType::kU32:
      return read_numbers<uint32_t>(in, count);
    case MetaType::kI32:
      return read_numbers<int32_t>(in, count);
    case MetaType::kF32:
      return read_numbers<float>(in, count);
    case MetaType::kU64:
      return read_numbers<uint64_t>(in, count);
    case MetaType::kI64:
      return read_numbers<int64_t>(in, count);
    case MetaType::kF64:
      return read_numbers<double>(in, count);
    case MetaType::kBool: {
      auto values = read_numbers<uint8_t>(in, count);
      for (const uint8_t value : values)
        if (value > 1) in.corrupt("array of bool: expected 0 or 1, found {}", value);
      return values;
    }
    case MetaType::kString: {
      // Grown as strings are read, so memory follows the bytes that are there and not the count that is
      // claimed.
      std::vector<std::string> values;
      for (uint64_t i = 0; i < count; ++i)
        values.push_back(read_string(in, kGgufArrayBytesMax, "array of string"));
      return values;
    }
    case MetaType::kArray: {
      std::vector<MetaArray> values;
      for (uint64_t i = 0; i < count; ++i) values.push_back(read_array(in, depth + 1));
      return values;
    }
  }
  in.corrupt("array: unknown element type");
}

MetaArray read_array(ByteReader& in, uint32_t depth) {
  if (depth > kGgufArrayDepthMax)
    in.corrupt("arrays: expected at most {} inside each other", kGgufArrayDepthMax);
  MetaArray array;
  array.type = read_type(in, "array element type");
  const auto count = in.read<uint64_t>("array length");
  const uint64_t bytes_min = array.type == MetaType::kString ? 8 : array.type == MetaType::kArray ? 12 : 1;
  if (count > in.remaining() / bytes_min)
    in.corrupt("array of {}: {} elements do not fit into the {} bytes that are left",
               meta_type_name(array.type), count, in.remaining());
  array.elements = read_elements(in, array.type, count, depth);
  return array;
}

MetaValue read_value(ByteReader& in, MetaType type) {
  switch (type) {
    case MetaType::kU8:
      return in.read<uint8_t>("u8");
    case MetaType::kI8:
      return in.read<int8_t>("i8");
    case MetaType::kU16:
      return in.read<uint16_t>("u16");
    case MetaType::kI16:
      return in.read<int16_t>("i16");
    case MetaType::kU32:
      return in.read<uint32_t>("u32");
    case MetaType::kI32:
      return in.read<int32_t>("i32");
    case MetaType::kF32:
      return in.read<float>("f32");
    case MetaType::kBool:
      return read_bool(in);
    case MetaType::kString:
      return read_string(in, kGgufArrayBytesMax, "string");
    case MetaType::kArray:
      return read_array(in, 1);
    case MetaType::kU64:
      return in.read<uint64_t>("u64");
    case MetaType::kI64:
      return in.read<int64_t>("i64");
    case MetaType::kF64:
      return in.read<double>("f64");
  }
  in.corrupt("unknown value type");
}

Shape read_shape(ByteReader& in) {
  const auto rank = in.read<uint32_t>("rank");
  if (rank < 1 || rank > kGgufRankMax) in.corrupt("rank: expected 1 to {}, found {}", kGgufRankMax, rank);
  int64_t sizes[kGgufRankMax];
  for (uint32_t i = 0; i < rank; ++i) {
    const auto size = in.read<uint64_t>("size");
    if (size == 0 || size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      in.corrupt("size {}: expected 1 to 2^63 - 1, found {}", i, size);
    sizes[rank - 1 - i] = static_cast<int64_t>(size);
  }
  return Shape(std::span<const int64_t>(sizes, rank));
}

void read_type(ByteReader& in, GgufTensor& tensor) {
  const auto id = in.read<uint32_t>("type");
  if (const auto dtype = dtype_by_gguf_id(id)) {
    tensor.dtype = *dtype;
    return;
  }
  if (const WidenedType* widened = widened_type(id)) {
    tensor.dtype = widened->dtype;
    tensor.stored = widened;
    return;
  }
  const std::string_view name = ggml_type_name(id);
  if (name.empty()) in.corrupt("type: expected a ggml type number, found {}", id);
  fail(Errc::kUnsupported, "{}: {}: type {} ({}) cannot be read by this build", in.file(), in.place(), id,
       name);
}

// Bytes of the values; throws when the product overflows or a row is no whole number of blocks.
uint64_t checked_bytes(const ByteReader& in, const GgufTensor& tensor) {
  const Shape& shape = tensor.shape;
  const DTypeInfo& info = dtype_info(tensor.dtype);
  const uint32_t block = tensor.stored != nullptr ? tensor.stored->block_values : info.block_values;
  const std::string_view name = tensor.stored != nullptr ? tensor.stored->name : info.name;
  if (shape.back() % block != 0)
    in.corrupt("row of {} values: {} needs a multiple of {}", shape.back(), name, block);
  const auto count = shape.checked_count();
  if (!count) in.corrupt("shape {}: the number of values does not fit into 63 bits", shape.to_string());
  auto bytes = dtype_bytes(tensor.dtype, static_cast<uint64_t>(*count));
  if (bytes && tensor.stored != nullptr)
    bytes = checked_mul(static_cast<uint64_t>(*count) / block, tensor.stored->block_bytes);
  if (!bytes) in.corrupt("shape {}: the number of bytes does not fit into 64 bits", shape.to_string());
  return *bytes;
}

}  // namespace

// One pass over the header. Lives for the call of parse().
class GgufParser {
 public:
  GgufParser(std::span<const std::byte> bytes, std::string name)
      : bytes_(bytes), in_(bytes, std::move(name)) {}

  GgufFile run() {
    file_.bytes_ = bytes_;
    file_.metadata_ = Metadata(in_.file());
    read_header();
    for (uint64_t i = 0; i < key_count_; ++i) read_key(i);
    check_alignment();
    for (uint64_t i = 0; i < tensor_count_; ++i) read_tensor(i);
    place_tensors();
    return std::move(file_);
  }

 private:
  void read_header() {
    const std::vector<std::byte> head = copy_head(bytes_, kFileHeadBytes);
    if (!is_gguf(head))
      fail(Errc::kCorrupt, "{}: magic: expected 'GGUF', found {}", in_.file(), describe_unknown_file(head));
    in_.read<uint32_t>("magic");
    file_.version_ = in_.read<uint32_t>("version");
    if (file_.version_ != 2 && file_.version_ != 3) refuse_version();
    tensor_count_ = in_.read<uint64_t>("tensor count");
    key_count_ = in_.read<uint64_t>("key count");
    if (key_count_ > in_.remaining() / kKeyBytesMin)
      in_.corrupt("key count: {} keys do not fit into the {} bytes that are left", key_count_,
                  in_.remaining());
    if (tensor_count_ > in_.remaining() / kTensorBytesMin)
      in_.corrupt("tensor count: {} tensors do not fit into the {} bytes that are left", tensor_count_,
                  in_.remaining());
  }

  [[noreturn]] void refuse_version() const {
    const uint32_t swapped = __builtin_bswap32(file_.version_);
    if (swapped >= 1 && swapped <= 3)
      fail(Errc::kUnsupported, "{}: version: expected 2 or 3, found a big-endian GGUF of version {}",
           in_.file(), swapped);
    const Errc code = file_.version_ >= 1 && file_.version_ <= 16 ? Errc::kUnsupported : Errc::kCorrupt;
    fail(code, "{}: version: expected 2 or 3, found {}", in_.file(), file_.version_);
  }

  void read_key(uint64_t index) {
    in_.set_place(fmt::format("key {} of {}", index + 1, key_count_));
    std::string key = read_string(in_, kGgufKeyBytesMax, "name");
    if (key.empty()) in_.corrupt("name: expected at least one byte, found none");
    const std::string shown = printable(key);
    in_.set_place("key " + shown);
    const MetaType type = read_type(in_, "value type");
    if (file_.metadata_.has(key)) in_.corrupt("expected once, found twice");
    file_.metadata_.add(std::move(key), read_value(in_, type));
  }

  void check_alignment() {
    in_.set_place("key general.alignment");
    const uint64_t found = file_.metadata_.u32_or("general.alignment", kGgufDefaultAlignment);
    if (!std::has_single_bit(found) || found < kGgufAlignmentMin || found > kGgufAlignmentMax)
      in_.corrupt("expected a power of two from {} to {}, found {}", kGgufAlignmentMin, kGgufAlignmentMax,
                  found);
    file_.alignment_ = found;
  }

  void read_tensor(uint64_t index) {
    in_.set_place(fmt::format("tensor {} of {}", index + 1, tensor_count_));
    GgufTensor tensor;
    tensor.name = read_string(in_, kGgufTensorNameBytesMax, "name");
    if (tensor.name.empty()) in_.corrupt("name: expected at least one byte, found none");
    in_.set_place("tensor " + printable(tensor.name));
    if (!names_.insert(tensor.name).second) in_.corrupt("expected once, found twice");
    tensor.shape = read_shape(in_);
    read_type(in_, tensor);
    tensor.offset = in_.read<uint64_t>("offset");
    if (tensor.offset % file_.alignment_ != 0)
      in_.corrupt("offset: expected a multiple of {}, found {}", file_.alignment_, tensor.offset);
    tensor.bytes = checked_bytes(in_, tensor);
    file_.tensors_.push_back(std::move(tensor));
  }

  // Offsets become absolute; all tensors must lie inside the file, apart from each other.
  void place_tensors() {
    in_.set_place("tensor data");
    const auto start = checked_round_up(in_.at(), file_.alignment_);
    if (!start) in_.corrupt("start does not fit into 64 bits");
    file_.data_offset_ = *start;
    std::vector<const GgufTensor*> by_offset;
    for (GgufTensor& tensor : file_.tensors_) {
      const auto begin = checked_add(*start, tensor.offset);
      const auto end = begin ? checked_add(*begin, tensor.bytes) : std::nullopt;
      if (!end)
        fail(Errc::kCorrupt, "{}: tensor {}: offset {} plus {} bytes does not fit into 64 bits", in_.file(),
             printable(tensor.name), tensor.offset, tensor.bytes);
      if (*end > bytes_.size())
        fail(Errc::kCorrupt, "{}: tensor {}: ends at byte {}, the file has {}", in_.file(),
             printable(tensor.name), *end, bytes_.size());
      tensor.offset = *begin;
      by_offset.push_back(&tensor);
    }
    std::sort(by_offset.begin(), by_offset.end(), [](auto* a, auto* b) { return a->offset < b->offset; });
    // None is empty, so in this order each has only to begin after the one before has ended.
    for (size_t i = 1; i < by_offset.size(); ++i) {
      const GgufTensor& before = *by_offset[i - 1];
      const GgufTensor& tensor = *by_offset[i];
      if (tensor.offset < before.offset + before.bytes)
        fail(Errc::kCorrupt, "{}: tensor {}: begins at byte {}, inside tensor {} (bytes {} to {})",
             in_.file(), printable(tensor.name), tensor.offset, printable(before.name), before.offset,
             before.offset + before.bytes);
    }
  }

  std::span<const std::byte> bytes_;
  ByteReader in_;
  GgufFile file_;
  uint64_t key_count_ = 0;
  uint64_t tensor_count_ = 0;
  std::unordered_set<std::string> names_;
};

bool is_gguf(std::span<const std::byte> head) {
  return head.size() >= 4 && std::memcmp(head.data(), "GGUF", 4) == 0;
}

GgufFile GgufFile::parse(std::span<const std::byte> bytes, std::string name) {
  return GgufParser(bytes, std::move(name)).run();
}

GgufFile GgufFile::open(const std::filesystem::path& path, FileAccess access) {
  return open(MappedFile::open(path, access));
}

GgufFile GgufFile::open(std::shared_ptr<MappedFile> mapping) {
  GgufFile file = parse(mapping->bytes(), mapping->path().string());
  file.mapping_ = std::move(mapping);
  return file;
}

Tensor GgufFile::tensor(const GgufTensor& info) const {
  const auto offset = static_cast<size_t>(info.offset);
  const auto bytes = static_cast<size_t>(info.bytes);
  const DType dtype = info.stored != nullptr ? DType::kU8 : info.dtype;
  const Shape shape = info.stored != nullptr ? Shape{static_cast<int64_t>(bytes)} : info.shape;
  if (mapping_) return Tensor(Buffer::mapped(mapping_, offset, bytes), dtype, shape);
  auto* data =
      const_cast<std::byte*>(bytes_.data() + offset);  // borrowed; readers of model files never write
  return Tensor(Buffer::adopt(data, bytes, [](std::byte*) {}), dtype, shape);
}

}  // namespace butterfly::model
