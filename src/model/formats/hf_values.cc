#include "model/formats/hf_values.h"

#include <fmt/format.h>

#include <cstring>

#include "base/error.h"
#include "base/printable.h"
#include "kernels/quant/quant.h"
#include "model/formats/float_type.h"

namespace butterfly::model {
namespace {

[[noreturn]] void refuse(const HfSource& source, std::string_view expected) {
  fail(Errc::kCorrupt, "{}: tensor {}: expected {}, found shape {}", source.file->name(),
       printable(source.info.name), expected, source.info.shape().to_string());
}

Tensor load(const HfSource& source) { return source.file->tensor(source.info); }

// Row (head, half, i) of the file is row (head, i, half) of GGUF.
Tensor rope_pairs(const HfSource& source, uint32_t heads) {
  const Tensor from = load(source);
  Tensor to = Tensor::zeros(from.dtype(), from.shape());
  const auto rows = static_cast<size_t>(from.size(0));
  const size_t row_bytes = from.bytes() / rows;
  const size_t head_rows = rows / heads, half = head_rows / 2;
  const std::byte* in = from.raw();
  std::byte* out = to.raw();
  MappedFile::guard([=] {
    for (size_t row = 0; row < rows; ++row) {
      const size_t head = row / head_rows, in_head = row % head_rows;
      const size_t target = head * head_rows + in_head % half * 2 + in_head / half;
      std::memcpy(out + target * row_bytes, in + row * row_bytes, row_bytes);
    }
  });
  return to;
}

template <typename T>
void transpose_values(const std::byte* from, std::byte* to, size_t rows, size_t cols) {
  // Tiles keep both sides in cache lines.
  constexpr size_t kTile = 32;
  const auto* in = reinterpret_cast<const T*>(from);
  auto* out = reinterpret_cast<T*>(to);
  for (size_t r = 0; r < rows; r += kTile)
    for (size_t c = 0; c < cols; c += kTile)
      for (size_t i = r; i < std::min(rows, r + kTile); ++i)
        for (size_t j = c; j < std::min(cols, c + kTile); ++j) out[j * rows + i] = in[i * cols + j];
}

Tensor transposed(const HfSource& source) {
  const Tensor from = load(source);
  Tensor to = Tensor::zeros(from.dtype(), {from.size(1), from.size(0)});
  const auto rows = static_cast<size_t>(from.size(0)), cols = static_cast<size_t>(from.size(1));
  const bool wide = from.dtype() == DType::kF32;
  const std::byte* in = from.raw();
  std::byte* out = to.raw();
  MappedFile::guard([=] {
    if (wide)
      transpose_values<uint32_t>(in, out, rows, cols);
    else
      transpose_values<uint16_t>(in, out, rows, cols);
  });
  return to;
}

Tensor plus_one(const HfSource& source) {
  const Tensor from = load(source);
  Tensor to = Tensor::zeros(DType::kF32, from.shape());
  const auto count = static_cast<size_t>(from.count());
  auto* values = to.data<float>();
  MappedFile::guard([&] { kernels::to_float(from.dtype(), from.raw(), values, count); });
  for (size_t i = 0; i < count; ++i) values[i] += 1.0f;
  return to;
}

}  // namespace

NamedTensor hf_tensor(std::string name, const HfSource& source, HfValues values, uint32_t heads) {
  const SafetensorsTensor& info = source.info;
  const Shape shape = info.shape();
  if (!info.dtype) return NamedTensor::foreign(std::move(name), info.type, shape, info.bytes, info.offset);
  const DType dtype = *info.dtype;
  const auto checked = [&](bool fits, const std::string& expected) {
    if (!fits) refuse(source, expected);
    if (!is_float(dtype))
      fail(Errc::kUnsupported, "{}: tensor {}: expected F32, F16 or BF16, found {}", source.file->name(),
           printable(info.name), printable(info.type));
  };
  switch (values) {
    case HfValues::kRopePairsQ:
    case HfValues::kRopePairsKv:
      checked(shape.rank() >= 1 && heads > 0 && shape[0] % (int64_t{heads} * 2) == 0,
              fmt::format("rows that divide into {} heads of pairs", heads));
      return NamedTensor(std::move(name), dtype, shape,
                         [source, heads] { return rope_pairs(source, heads); });
    case HfValues::kTranspose:
      checked(shape.rank() == 2, "a matrix");
      return NamedTensor(std::move(name), dtype, Shape{shape[1], shape[0]},
                         [source] { return transposed(source); });
    case HfValues::kAddOne:
      checked(shape.rank() == 1, "a vector");
      return NamedTensor(std::move(name), DType::kF32, shape, [source] { return plus_one(source); });
    default:
      break;
  }
  if (source.file->aligned(info)) return NamedTensor(std::move(name), load(source), info.offset);
  NamedTensor copied(std::move(name), dtype, shape, [source] { return load(source); });
  copied.offset = info.offset;
  return copied;
}

NamedTensor hf_stack(std::string name, std::vector<HfSource> experts) {
  const SafetensorsTensor& first = experts.front().info;
  const Shape shape = first.shape();
  for (const HfSource& source : experts) {
    if (!source.info.dtype || source.info.dtype != first.dtype || source.info.shape() != shape)
      refuse(source, fmt::format("{} of {} as expert 0", shape.to_string(), first.type));
  }
  if (shape.rank() != 2) refuse(experts.front(), "a matrix");
  const Shape stacked{static_cast<int64_t>(experts.size()), shape[0], shape[1]};
  const DType dtype = *first.dtype;
  if (!stacked.checked_count() || !dtype_bytes(dtype, static_cast<uint64_t>(stacked.count())))
    refuse(experts.front(), "a stack that fits into 63 bits");
  return NamedTensor(std::move(name), dtype, stacked, [experts = std::move(experts), stacked, dtype] {
    Tensor to = Tensor::zeros(dtype, stacked);
    std::byte* out = to.raw();
    for (const HfSource& source : experts) {
      const Tensor from = load(source);
      MappedFile::guard([&] { std::memcpy(out, from.raw(), from.bytes()); });
      out += from.bytes();
    }
    return to;
  });
}

}  // namespace butterfly::model
