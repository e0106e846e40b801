#include "model/formats/gguf_writer.h"

#include <bit>
#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/printable.h"
#include "model/formats/file_sink.h"

namespace butterfly::model {
namespace {

class HeaderBytes {
 public:
  template <typename T>
  void number(T value) {
    static_assert(std::is_arithmetic_v<T>);
    const auto* at = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), at, at + sizeof value);
  }
  void string(std::string_view text) {
    number(uint64_t{text.size()});
    const auto* at = reinterpret_cast<const std::byte*>(text.data());
    bytes.insert(bytes.end(), at, at + text.size());
  }
  void array(const MetaArray& array) {
    number(static_cast<uint32_t>(array.type));
    number(uint64_t{array.size()});
    std::visit([this](const auto& vector) { elements(vector); }, array.elements);
  }
  void value(const MetaValue& value) {
    number(static_cast<uint32_t>(meta_type(value)));
    std::visit([this](const auto& held) { one(held); }, value);
  }
  void pad(uint64_t to) { bytes.resize(round_up(bytes.size(), to)); }

  std::vector<std::byte> bytes;

 private:
  void one(const std::string& text) { string(text); }
  void one(const MetaArray& nested) { array(nested); }
  void one(bool flag) { number(uint8_t{flag}); }
  template <typename T>
  void one(T value) {
    number(value);
  }
  template <typename T>
  void elements(const std::vector<T>& vector) {
    for (const T& item : vector) one(item);
  }
};

// Counts what a source hands over and stops one that gives too much.
class CountingSink final : public ByteSink {
 public:
  CountingSink(ByteSink& to, const GgufTensor& info) : to_(to), info_(info) {}
  void write(std::span<const std::byte> bytes) override {
    count_ += bytes.size();
    BF_CHECK(count_ <= info_.bytes) << "tensor " << info_.name << ": source gave more than " << info_.bytes
                                    << " bytes";
    to_.write(bytes);
  }
  uint64_t count() const { return count_; }

 private:
  ByteSink& to_;
  const GgufTensor& info_;
  uint64_t count_ = 0;
};

void write_zeros(ByteSink& sink, uint64_t count) {
  static constexpr std::byte kZeros[64]{};
  for (; count > 0; count -= std::min<uint64_t>(count, sizeof kZeros))
    sink.write({kZeros, static_cast<size_t>(std::min<uint64_t>(count, sizeof kZeros))});
}

}  // namespace

uint64_t GgufWriter::alignment() const {
  const uint64_t value = metadata_.u32_or("general.alignment", kGgufDefaultAlignment);
  if (!std::has_single_bit(value) || value < kGgufAlignmentMin || value > kGgufAlignmentMax)
    fail(Errc::kInvalidArgument, "general.alignment: expected a power of two from {} to {}, found {}",
         kGgufAlignmentMin, kGgufAlignmentMax, value);
  return value;
}

void GgufWriter::add_tensor(std::string name, DType dtype, Shape shape, Source source) {
  const DTypeInfo& info = dtype_info(dtype);
  const std::string shown = printable(name);
  if (info.gguf_id < 0) fail(Errc::kInvalidArgument, "tensor {}: GGUF has no type {}", shown, info.name);
  if (name.empty() || name.size() > kGgufTensorNameBytesMax)
    fail(Errc::kInvalidArgument, "tensor {}: name has {} bytes, expected 1 to {}", shown, name.size(),
         kGgufTensorNameBytesMax);
  for (const Entry& entry : entries_)
    if (entry.info.name == name) fail(Errc::kInvalidArgument, "tensor {}: added twice", shown);
  const auto count = shape.checked_count();
  const bool whole =
      shape.rank() >= 1 && shape.rank() <= kGgufRankMax && shape.back() % info.block_values == 0;
  const auto bytes =
      count && *count > 0 && whole ? dtype_bytes(dtype, static_cast<uint64_t>(*count)) : std::nullopt;
  if (!bytes)
    fail(Errc::kInvalidArgument,
         "tensor {}: shape {} is not possible for {} (rank 1 to {}, rows a multiple of {})", shown,
         shape.to_string(), info.name, kGgufRankMax, info.block_values);
  uint64_t offset = 0;
  if (!entries_.empty())
    offset = round_up(entries_.back().info.offset + entries_.back().info.bytes, alignment());
  entries_.push_back({{std::move(name), dtype, shape, offset, *bytes}, std::move(source)});
}

void GgufWriter::add_tensor(std::string name, const Tensor& tensor) {
  BF_CHECK(tensor.contiguous()) << "tensor " << name << ": clone() it first";
  add_tensor(std::move(name), tensor.dtype(), tensor.shape(), [tensor](ByteSink& sink) {
    sink.write({tensor.raw(), tensor.bytes()});
  });
}

std::vector<std::byte> GgufWriter::header() const {
  HeaderBytes out;
  for (const char c : {'G', 'G', 'U', 'F'}) out.number(c);
  out.number(uint32_t{3});
  out.number(uint64_t{entries_.size()});
  out.number(uint64_t{metadata_.entries().size()});
  for (const auto& [key, value] : metadata_.entries()) {
    if (key.empty() || key.size() > kGgufKeyBytesMax)
      fail(Errc::kInvalidArgument, "key {}: has {} bytes, expected 1 to {}", printable(key), key.size(),
           kGgufKeyBytesMax);
    out.string(key);
    out.value(value);
  }
  for (const Entry& entry : entries_) {
    out.string(entry.info.name);
    const auto sizes = entry.info.shape.sizes();
    out.number(static_cast<uint32_t>(sizes.size()));
    for (size_t i = sizes.size(); i-- > 0;) out.number(static_cast<uint64_t>(sizes[i]));
    out.number(static_cast<uint32_t>(dtype_info(entry.info.dtype).gguf_id));
    out.number(entry.info.offset);
  }
  out.pad(alignment());
  return std::move(out.bytes);
}

uint64_t GgufWriter::file_bytes() const {
  uint64_t bytes = header().size();
  if (!entries_.empty())
    bytes += round_up(entries_.back().info.offset + entries_.back().info.bytes, alignment());
  return bytes;
}

void GgufWriter::write(ByteSink& sink) const {
  sink.write(header());
  const uint64_t to = alignment();
  for (const Entry& entry : entries_) {
    CountingSink counted(sink, entry.info);
    entry.source(counted);
    BF_CHECK(counted.count() == entry.info.bytes)
        << "tensor " << entry.info.name << ": source gave " << counted.count() << " of " << entry.info.bytes
        << " bytes";
    write_zeros(sink, round_up(entry.info.bytes, to) - entry.info.bytes);
  }
}

void GgufWriter::write(const std::filesystem::path& path) const {
  FileSink sink(path);
  write(sink);
  sink.commit();
}

}  // namespace butterfly::model
