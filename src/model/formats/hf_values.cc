#include "model/formats/hf_values.h"

#include <fmt/format.h>

#include <cstring>

#include "base/error.h"
#include "base/printable.h"
#include "kernels/math/math.h"
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

// ---- Linear attention ----

// The place of GGUF's value head in Hugging Face's order.
size_t value_head(const HfHeads& heads, size_t head) {
  return heads.tiled ? head % heads.keys * (heads.values / heads.keys) + head / heads.keys : head;
}

// Row of the file that becomes row `row`.
size_t delta_row(const HfHeads& heads, HfValues values, size_t rows, size_t row) {
  const size_t dim = heads.dim, keys = heads.keys * dim, group = heads.values / heads.keys;
  if (values == HfValues::kDeltaRows) {
    const size_t unit = rows / heads.values;
    return value_head(heads, row / unit) * unit + row % unit;
  }
  if (values == HfValues::kDeltaQkv || values == HfValues::kDeltaConv)
    return row < 2 * keys ? row : 2 * keys + value_head(heads, (row - 2 * keys) / dim) * dim + row % dim;
  // Each key head has its query, its key, its group's values and their gates.
  const size_t whole = (2 + 2 * group) * dim;
  const auto of_group = [&](size_t index, size_t first) {  // `index` counts a group's heads, then groups
    return index / (group * dim) * whole + first + index % (group * dim);
  };
  if (values == HfValues::kDeltaGateOfAll) return of_group(row, (2 + group) * dim);
  if (row >= 2 * keys) return of_group(row - 2 * keys, 2 * dim);
  const size_t in_keys = row % keys;
  return in_keys / dim * whole + (row < keys ? 0 : dim) + in_keys % dim;
}

Tensor delta_rows(const HfSource& source, HfValues values, const HfHeads& heads, const Shape& shape) {
  const Tensor from = load(source);
  Tensor to = Tensor::zeros(from.dtype(), shape);
  const auto rows = static_cast<size_t>(shape[0]);
  const size_t row_bytes = to.bytes() / rows;
  MappedFile::guard([&] {
    for (size_t row = 0; row < rows; ++row)
      std::memcpy(to.raw() + row * row_bytes, from.raw() + delta_row(heads, values, rows, row) * row_bytes,
                  row_bytes);
  });
  return to;
}

Tensor delta_columns(const HfSource& source, const HfHeads& heads) {
  const Tensor from = load(source);
  Tensor to = Tensor::zeros(from.dtype(), from.shape());
  const auto rows = static_cast<size_t>(from.size(0));
  const size_t row_bytes = from.bytes() / rows, head_bytes = row_bytes / heads.values;
  MappedFile::guard([&] {
    for (size_t row = 0; row < rows; ++row)
      for (size_t head = 0; head < heads.values; ++head)
        std::memcpy(to.raw() + row * row_bytes + head * head_bytes,
                    from.raw() + row * row_bytes + value_head(heads, head) * head_bytes, head_bytes);
  });
  return to;
}

Tensor delta_a(const HfSource& source, const HfHeads& heads) {
  const Tensor from = load(source);
  std::vector<float> logs(static_cast<size_t>(from.count()));
  MappedFile::guard([&] { kernels::to_float(from.dtype(), from.raw(), logs.data(), logs.size()); });
  Tensor to = Tensor::zeros(DType::kF32, from.shape());
  for (size_t head = 0; head < logs.size(); ++head)
    to.data<float>()[head] = -static_cast<float>(kernels::exp_f64(logs[value_head(heads, head)]));
  return to;
}

// Rows of keys, then of values, head by head.
Tensor of_latent(const HfSource& source, HfValues values, const HfHeads& heads, const Shape& shape) {
  const Tensor from = load(source);
  Tensor to = Tensor::zeros(from.dtype(), shape);
  const auto latent = static_cast<size_t>(from.size(1));
  const size_t size = dtype_info(from.dtype()).block_bytes, row_bytes = latent * size;
  MappedFile::guard([&] {
    std::byte* out = to.raw();
    for (size_t head = 0; head < heads.dim; ++head) {
      const std::byte* rows = from.raw() + head * (heads.keys + heads.values) * row_bytes;
      if (values == HfValues::kLatentValues) {
        std::memcpy(out, rows + heads.keys * row_bytes, heads.values * row_bytes);
        out += heads.values * row_bytes;
        continue;
      }
      for (size_t c = 0; c < latent; ++c)
        for (size_t row = 0; row < heads.keys; ++row, out += size)
          std::memcpy(out, rows + row * row_bytes + c * size, size);
    }
  });
  return to;
}

// What the tensor becomes; expected: what the file must have.
struct DeltaShape {
  Shape shape;
  bool fits;
  std::string expected;
};
DeltaShape delta_shape(const Shape& found, HfValues values, const HfHeads& heads) {
  const int64_t keys = int64_t{heads.keys} * heads.dim, all = int64_t{heads.values} * heads.dim;
  const size_t rank = found.rank();
  switch (values) {
    case HfValues::kDeltaQkv:
      return {found, rank == 2 && found[0] == 2 * keys + all,
              fmt::format("a matrix of {} rows", 2 * keys + all)};
    case HfValues::kDeltaConv:
      return {rank == 3 ? Shape{found[0], found[2]} : found,
              rank == 3 && found[1] == 1 && found[0] == 2 * keys + all,
              fmt::format("shape [{}, 1, taps]", 2 * keys + all)};
    case HfValues::kDeltaRows:
      return {found, rank >= 1 && found[0] > 0 && found[0] % heads.values == 0,
              fmt::format("rows of {} heads", heads.values)};
    case HfValues::kDeltaColumns:
      return {found, rank == 2 && found[0] > 0 && found[1] == all,
              fmt::format("a matrix of {} columns", all)};
    case HfValues::kDeltaA:
      return {found, rank == 1 && found[0] == heads.values, fmt::format("{} numbers", heads.values)};
    default:
      return {rank == 2 ? Shape{values == HfValues::kDeltaGateOfAll ? all : 2 * keys + all, found[1]} : found,
              rank == 2 && found[0] == 2 * (keys + all),
              fmt::format("a matrix of {} rows", 2 * (keys + all))};
  }
}

}  // namespace

NamedTensor hf_tensor(std::string name, const HfSource& source, HfValues values, const HfHeads& heads) {
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
      checked(shape.rank() >= 1 && heads.rope > 0 && shape[0] % (int64_t{heads.rope} * 2) == 0,
              fmt::format("rows that divide into {} heads of pairs", heads.rope));
      return NamedTensor(std::move(name), dtype, shape,
                         [source, heads] { return rope_pairs(source, heads.rope); });
    case HfValues::kTranspose:
      checked(shape.rank() == 2, "a matrix");
      return NamedTensor(std::move(name), dtype, Shape{shape[1], shape[0]},
                         [source] { return transposed(source); });
    case HfValues::kAddOne:
      checked(shape.rank() == 1, "a vector");
      return NamedTensor(std::move(name), DType::kF32, shape, [source] { return plus_one(source); });
    case HfValues::kDeltaQkv:
    case HfValues::kDeltaConv:
    case HfValues::kDeltaRows:
    case HfValues::kDeltaColumns:
    case HfValues::kDeltaA:
    case HfValues::kDeltaQkvOfAll:
    case HfValues::kDeltaGateOfAll: {
      const DeltaShape to = delta_shape(shape, values, heads);
      checked(to.fits && heads.keys > 0 && heads.values % heads.keys == 0, to.expected);
      if (values == HfValues::kDeltaColumns)
        return NamedTensor(std::move(name), dtype, shape,
                           [source, heads] { return delta_columns(source, heads); });
      if (values == HfValues::kDeltaA)
        return NamedTensor(std::move(name), DType::kF32, shape,
                           [source, heads] { return delta_a(source, heads); });
      return NamedTensor(std::move(name), dtype, to.shape, [source, values, heads, becomes = to.shape] {
        return delta_rows(source, values, heads, becomes);
      });
    }
    case HfValues::kNoMiddle:
      checked(shape.rank() == 3 && shape[1] == 1, "shape [channels, 1, taps]");
      return NamedTensor(std::move(name), dtype, Shape{shape[0], shape[2]}, [source, shape] {
        return load(source).reshape({shape[0], shape[2]});
      });
    case HfValues::kColumn:
      checked(shape.rank() == 1, "a vector");
      return NamedTensor(std::move(name), dtype, Shape{shape[0], 1}, [source, shape] {
        return load(source).reshape({shape[0], 1});
      });
    case HfValues::kMambaA:
      checked(shape.rank() == 1, "a vector");
      return NamedTensor(std::move(name), DType::kF32, Shape{shape[0], 1}, [source, shape] {
        return delta_a(source, HfHeads{}).reshape({shape[0], 1});
      });
    case HfValues::kGroupRows:
      checked(shape.rank() == 1 && heads.keys > 0 && shape[0] % heads.keys == 0,
              fmt::format("a vector of {} groups", heads.keys));
      return NamedTensor(std::move(name), dtype, Shape{heads.keys, shape[0] / heads.keys},
                         [source, shape, groups = int64_t{heads.keys}] {
                           return load(source).reshape({groups, shape[0] / groups});
                         });
    case HfValues::kLatentKeys:
    case HfValues::kLatentValues: {
      const int64_t rows = int64_t{heads.dim} * (int64_t{heads.keys} + heads.values);
      checked(shape.rank() == 2 && heads.keys > 0 && heads.values > 0 && shape[0] == rows,
              fmt::format("a matrix of {} rows", rows));
      const Shape to = values == HfValues::kLatentKeys ? Shape{heads.dim, shape[1], heads.keys}
                                                       : Shape{heads.dim, heads.values, shape[1]};
      return NamedTensor(std::move(name), dtype, to,
                         [source, values, heads, to] { return of_latent(source, values, heads, to); });
    }
    case HfValues::kOneRow:
      checked(shape.rank() == 2 && shape[0] == 1, "a matrix of one row");
      return NamedTensor(std::move(name), dtype, Shape{shape[1]},
                         [source] { return load(source).reshape({source.info.shape()[1]}); });
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
