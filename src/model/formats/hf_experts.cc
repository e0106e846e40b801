#include "model/formats/hf_experts.h"

#include <fmt/format.h>

#include <cstring>

#include "base/error.h"
#include "base/printable.h"
#include "kernels/quant/mxfp4.h"
#include "model/formats/float_type.h"

namespace butterfly::model {
namespace {

using kernels::BlockMXFP4;

// Which rows of the file become the tensor's: all, every second one, or one half.
struct Turns {
  int64_t parts = 1;    // tensors that share the file's rows
  int64_t part = 0;     // which of them this is
  bool halves = false;  // each has its rows side by side
  int64_t rows(int64_t file_rows) const { return file_rows / parts; }
  // Row of the file that becomes row `row`.
  int64_t at(int64_t row, int64_t file_rows) const {
    return halves ? part * rows(file_rows) + row : row * parts + part;
  }
};
Turns turns_of(HfValues values) {
  switch (values) {
    case HfValues::kExpertsGate:
    case HfValues::kExpertsGateBias:
    case HfValues::kMxfp4Gate:
      return {.parts = 2, .part = 0};
    case HfValues::kExpertsUp:
    case HfValues::kExpertsUpBias:
    case HfValues::kMxfp4Up:
      return {.parts = 2, .part = 1};
    case HfValues::kExpertsGateHalf:
    case HfValues::kFirstRows:
      return {.parts = 2, .part = 0, .halves = true};
    case HfValues::kExpertsUpHalf:
    case HfValues::kSecondRows:
      return {.parts = 2, .part = 1, .halves = true};
    default:
      return {};
  }
}

void expect(const HfSource& source, bool fits, std::string_view expected) {
  if (!fits)
    fail(Errc::kCorrupt, "{}: tensor {}: expected {}, found shape {} of {}", source.file->name(),
         printable(source.info.name), expected, source.info.shape().to_string(), printable(source.info.type));
}

// [experts, in, rows of the file] to [experts, rows, in].
Tensor turned(const HfSource& source, const Turns& turns, const Shape& shape) {
  const Tensor from = source.file->tensor(source.info);
  Tensor to = Tensor::zeros(from.dtype(), shape);
  const auto size = dtype_info(from.dtype()).block_bytes;
  const int64_t file_rows = from.size(2), in = shape[2];
  MappedFile::guard([&] {
    std::byte* out = to.raw();
    for (int64_t e = 0; e < shape[0]; ++e)
      for (int64_t row = 0; row < shape[1]; ++row)
        for (int64_t column = 0; column < in; ++column, out += size)
          std::memcpy(out, from.raw() + ((e * in + column) * file_rows + turns.at(row, file_rows)) * size,
                      size);
  });
  return to;
}

// [experts, rows of the file] to [experts, rows].
Tensor biases(const HfSource& source, const Turns& turns, const Shape& shape) {
  const Tensor from = source.file->tensor(source.info);
  Tensor to = Tensor::zeros(from.dtype(), shape);
  const auto size = dtype_info(from.dtype()).block_bytes;
  const int64_t file_rows = from.size(1);
  MappedFile::guard([&] {
    std::byte* out = to.raw();
    for (int64_t e = 0; e < shape[0]; ++e)
      for (int64_t row = 0; row < shape[1]; ++row, out += size)
        std::memcpy(out, from.raw() + (e * file_rows + turns.at(row, file_rows)) * size, size);
  });
  return to;
}

// [.., rows of the file, columns] to [.., rows, columns].
Tensor rows_of(const HfSource& source, const Turns& turns, const Shape& shape) {
  const Tensor from = source.file->tensor(source.info);
  Tensor to = Tensor::zeros(from.dtype(), shape);
  const size_t axis = shape.rank() - 2;
  const int64_t file_rows = from.size(axis), rows = shape[axis];
  const size_t row_bytes = static_cast<size_t>(shape[axis + 1]) * dtype_info(from.dtype()).block_bytes;
  MappedFile::guard([&] {
    std::byte* out = to.raw();
    for (int64_t e = 0; e < (axis == 0 ? 1 : shape[0]); ++e)
      for (int64_t row = 0; row < rows; ++row, out += row_bytes)
        std::memcpy(out,
                    from.raw() + static_cast<size_t>(e * file_rows + turns.at(row, file_rows)) * row_bytes,
                    row_bytes);
  });
  return to;
}

// Byte k of the file holds values 2k and 2k + 1 of a block, GGUF's byte k holds values k and k + 16.
BlockMXFP4 block_of(const uint8_t* nibbles, uint8_t scale) {
  BlockMXFP4 block{.e = scale, .qs = {}};
  for (size_t i = 0; i < 32; ++i) {
    const uint8_t code = i % 2 == 0 ? nibbles[i / 2] & 15 : nibbles[i / 2] >> 4;
    block.qs[i % 16] |= static_cast<uint8_t>(i < 16 ? code : code << 4);
  }
  return block;
}

Tensor mxfp4(const HfSource& source, const HfSource& scales, const Turns& turns, const Shape& shape) {
  const Tensor nibbles = source.file->tensor(source.info), exponents = scales.file->tensor(scales.info);
  Tensor to = Tensor::zeros(DType::kMXFP4, shape);
  const int64_t file_rows = exponents.size(1), blocks = exponents.size(2);
  MappedFile::guard([&] {
    const auto* from = reinterpret_cast<const uint8_t*>(nibbles.raw());
    const auto* e_of = reinterpret_cast<const uint8_t*>(exponents.raw());
    std::byte* out = to.raw();
    for (int64_t e = 0; e < shape[0]; ++e)
      for (int64_t row = 0; row < shape[1]; ++row)
        for (int64_t b = 0; b < blocks; ++b, out += sizeof(BlockMXFP4)) {
          const int64_t at = (e * file_rows + turns.at(row, file_rows)) * blocks + b;
          const BlockMXFP4 block = block_of(from + at * 16, e_of[at]);
          std::memcpy(out, &block, sizeof block);
        }
  });
  return to;
}

NamedTensor mxfp4_experts(std::string name, const HfSource& source, const HfSource& scales,
                          const Turns& turns) {
  const Shape nibbles = source.info.shape(), exponents = scales.info.shape();
  expect(source,
         source.info.dtype == DType::kU8 && nibbles.rank() == 4 && nibbles[3] == 16 &&
             nibbles[1] % turns.parts == 0,
         "U8 of shape [experts, rows, blocks, 16]");
  expect(scales, scales.info.dtype == DType::kU8 && exponents == Shape{nibbles[0], nibbles[1], nibbles[2]},
         fmt::format("U8 of shape {}", Shape{nibbles[0], nibbles[1], nibbles[2]}.to_string()));
  expect(source, nibbles[2] <= (int64_t{1} << 40), "fewer blocks");
  const Shape shape{nibbles[0], nibbles[1] / turns.parts, nibbles[2] * 32};
  expect(source, shape.checked_count().has_value(), "a stack that fits into 63 bits");
  return NamedTensor(std::move(name), DType::kMXFP4, shape,
                     [source, scales, turns, shape] { return mxfp4(source, scales, turns, shape); });
}

}  // namespace

NamedTensor hf_experts(std::string name, const HfSource& source, const HfSource* scales, HfValues values) {
  const Turns turns = turns_of(values);
  if (values == HfValues::kMxfp4Gate || values == HfValues::kMxfp4Up || values == HfValues::kMxfp4Down) {
    if (scales == nullptr)
      fail(Errc::kCorrupt, "{}: tensor {}: its scales are missing", source.file->name(),
           printable(source.info.name));
    return mxfp4_experts(std::move(name), source, *scales, turns);
  }
  const Shape found = source.info.shape();
  if (values == HfValues::kFirstRows || values == HfValues::kSecondRows) {
    const size_t rank = found.rank();
    expect(source,
           source.info.dtype && is_float(*source.info.dtype) && (rank == 2 || rank == 3) &&
               found[rank - 2] % turns.parts == 0,
           "F32, F16 or BF16 of an even number of rows");
    const int64_t rows = turns.rows(found[rank - 2]);
    const Shape shape = rank == 2 ? Shape{rows, found[1]} : Shape{found[0], rows, found[2]};
    return NamedTensor(std::move(name), *source.info.dtype, shape,
                       [source, turns, shape] { return rows_of(source, turns, shape); });
  }
  const bool bias = values == HfValues::kExpertsGateBias || values == HfValues::kExpertsUpBias;
  const size_t rank = bias ? 2 : 3;
  expect(source,
         source.info.dtype && is_float(*source.info.dtype) && found.rank() == rank &&
             found[rank - 1] % turns.parts == 0,
         bias ? "F32, F16 or BF16 of shape [experts, 2 * columns]"
              : "F32, F16 or BF16 of shape [experts, columns, rows]");
  if (bias) {
    const Shape shape{found[0], found[1] / turns.parts};
    return NamedTensor(std::move(name), *source.info.dtype, shape,
                       [source, turns, shape] { return biases(source, turns, shape); });
  }
  const Shape shape{found[0], found[2] / turns.parts, found[1]};
  return NamedTensor(std::move(name), *source.info.dtype, shape,
                     [source, turns, shape] { return turned(source, turns, shape); });
}

}  // namespace butterfly::model
