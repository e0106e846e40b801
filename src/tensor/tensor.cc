#include "tensor/tensor.h"

#include <cstring>

#include "base/check.h"
#include "base/checked.h"
#include "base/error.h"

namespace butterfly {
namespace {

using Strides = std::array<int64_t, kMaxRank>;

// Strides of a contiguous tensor, or nothing where they do not fit. Sizes of 0 count as 1, so that slices and
// reshapes of empty tensors stay well-formed.
std::optional<Strides> contiguous_strides(const Shape& shape) {
  Strides strides{};
  int64_t product = 1;
  for (size_t axis = shape.rank(); axis-- > 0;) {
    strides[axis] = product;
    if (__builtin_mul_overflow(product, std::max<int64_t>(shape[axis], 1), &product)) return std::nullopt;
  }
  return strides;
}

}  // namespace

Tensor::Tensor(Buffer buffer, DType dtype, Shape shape, size_t offset)
    : buffer_(std::move(buffer)), dtype_(dtype), shape_(shape), offset_(offset) {
  const DTypeInfo& type = dtype_info(dtype);
  if (type.quantised() && (shape.rank() == 0 || shape.back() % type.block_values != 0))
    fail(Errc::kInvalidArgument,
         "[tensor] {} {}: the last axis has to be a multiple of the block of {} values", type.name,
         shape.to_string(), type.block_values);
  const auto strides = contiguous_strides(shape);
  if (!strides)
    fail(Errc::kInvalidArgument, "[tensor] {} {}: more values than 64 bits can count", type.name,
         shape.to_string());
  strides_ = *strides;
  check_bounds("tensor");
}

Tensor Tensor::zeros(DType dtype, Shape shape) {
  const auto count = shape.checked_count();
  const auto bytes = count ? dtype_bytes(dtype, static_cast<uint64_t>(*count)) : std::nullopt;
  if (!bytes)
    fail(Errc::kInvalidArgument, "[zeros] {} {}: not a whole number of blocks, or too large to count",
         dtype_name(dtype), shape.to_string());
  return Tensor(Buffer::allocate(*bytes), dtype, shape);
}

size_t Tensor::bytes() const { return *dtype_bytes(dtype_, static_cast<uint64_t>(count())); }

bool Tensor::contiguous() const {
  if (count() == 0) return true;
  int64_t expected = 1;
  for (size_t axis = rank(); axis-- > 0;) {
    if (shape_[axis] != 1 && strides_[axis] != expected) return false;
    expected *= shape_[axis];
  }
  return true;
}

void Tensor::check_type(size_t value_bytes) const {
  const DTypeInfo& type = dtype_info(dtype_);
  BF_CHECK(value_bytes == type.block_bytes || (type.quantised() && value_bytes == 1))
      << "values of " << value_bytes << " bytes from " << type.name << " (" << type.block_bytes << " bytes)";
}

// The last reachable value has the largest index on every axis, as no stride is negative.
void Tensor::check_bounds(const char* what) const {
  const DTypeInfo& type = dtype_info(dtype_);
  std::optional<uint64_t> end = offset_;
  const auto count = shape_.checked_count();
  if (!count) end = std::nullopt;
  if (count && *count > 0) {
    std::optional<uint64_t> values = 1;  // one past the last value
    if (type.quantised()) values = static_cast<uint64_t>(shape_.back());
    const size_t axes = type.quantised() ? rank() - 1 : rank();
    for (size_t axis = 0; axis < axes && values; ++axis) {
      const auto step =
          checked_mul(static_cast<uint64_t>(shape_[axis] - 1), static_cast<uint64_t>(strides_[axis]));
      values = step ? checked_add(*values, *step) : std::nullopt;
    }
    const auto bytes = values ? dtype_bytes(dtype_, *values) : std::nullopt;
    end = bytes ? checked_add(offset_, *bytes) : std::nullopt;
  }
  if (!end)
    fail(Errc::kInvalidArgument, "[{}] {} {}: more bytes than 64 bits can count", what, type.name,
         shape_.to_string());
  if (*end > buffer_.size())
    fail(Errc::kInvalidArgument, "[{}] {} {} at byte {} ends at byte {}, the buffer has {}", what, type.name,
         shape_.to_string(), offset_, *end, buffer_.size());
}

Tensor Tensor::slice(size_t axis, int64_t begin, int64_t end) const {
  const DTypeInfo& type = dtype_info(dtype_);
  if (axis >= rank())
    fail(Errc::kInvalidArgument, "[slice] axis {} of {}, which has {} axes", axis, shape_.to_string(),
         rank());
  if (begin < 0 || begin > end || end > shape_[axis])
    fail(Errc::kInvalidArgument, "[slice] [{}, {}) of axis {} of {}", begin, end, axis, shape_.to_string());
  const bool blocks = type.quantised() && axis + 1 == rank();
  if (blocks && (begin % type.block_values != 0 || end % type.block_values != 0))
    fail(Errc::kInvalidArgument, "[slice] [{}, {}) of the last axis of {} {}: cuts a block of {} values",
         begin, end, type.name, shape_.to_string(), type.block_values);
  Tensor view = *this;
  view.shape_[axis] = end - begin;
  const int64_t first = blocks ? begin : begin * strides_[axis];
  // An empty view keeps the old offset: there may be nothing at the new one.
  if (view.count() > 0) view.offset_ += static_cast<size_t>(first / type.block_values * type.block_bytes);
  view.check_bounds("slice");
  return view;
}

Tensor Tensor::reshape(Shape shape) const {
  if (!contiguous())
    fail(Errc::kInvalidArgument, "[reshape] {} to {}: the view is not contiguous; clone() it first",
         shape_.to_string(), shape.to_string());
  const auto count_new = shape.checked_count();
  if (!count_new || *count_new != count())
    fail(Errc::kInvalidArgument, "[reshape] {} has {} values, {} does not", shape_.to_string(), count(),
         shape.to_string());
  return Tensor(buffer_, dtype_, shape, offset_);
}

Tensor Tensor::transpose(size_t axis_a, size_t axis_b) const {
  if (axis_a >= rank() || axis_b >= rank())
    fail(Errc::kInvalidArgument, "[transpose] axes {} and {} of {}, which has {} axes", axis_a, axis_b,
         shape_.to_string(), rank());
  const DTypeInfo& type = dtype_info(dtype_);
  if (axis_a != axis_b && type.quantised() && std::max(axis_a, axis_b) + 1 == rank())
    fail(Errc::kInvalidArgument, "[transpose] the last axis of {} {} holds blocks and cannot move", type.name,
         shape_.to_string());
  Tensor view = *this;
  std::swap(view.shape_[axis_a], view.shape_[axis_b]);
  std::swap(view.strides_[axis_a], view.strides_[axis_b]);
  view.check_bounds("transpose");
  return view;
}

Tensor Tensor::broadcast(Shape shape) const {
  const auto refuse = [&] {
    fail(Errc::kInvalidArgument, "[broadcast] {} {} does not repeat to {}", dtype_name(dtype_),
         shape_.to_string(), shape.to_string());
  };
  if (shape.rank() < rank() || !shape.checked_count()) refuse();
  const size_t added = shape.rank() - rank();
  Tensor view = *this;
  view.shape_ = shape;
  view.strides_ = {};
  for (size_t axis = 0; axis < rank(); ++axis) {
    if (shape_[axis] == shape[added + axis])
      view.strides_[added + axis] = strides_[axis];
    else if (shape_[axis] != 1)
      refuse();
  }
  view.check_bounds("broadcast");
  return view;
}

Tensor Tensor::clone() const {
  Tensor copy = zeros(dtype_, shape_);
  if (count() == 0) return copy;
  if (contiguous()) {
    std::memcpy(copy.raw(), raw(), bytes());
    return copy;
  }
  // Runs of the last axis: whole when it is contiguous, else value by value.
  const DTypeInfo& type = dtype_info(dtype_);
  const size_t last = rank() - 1;
  const bool whole = strides_[last] == 1;
  const int64_t row_blocks = shape_[last] / type.block_values;
  const size_t value_bytes = type.block_bytes;
  std::array<int64_t, kMaxRank> index{};
  std::byte* to = copy.raw();
  for (int64_t rows = count() / shape_[last]; rows > 0; --rows) {
    int64_t at = 0;
    for (size_t axis = 0; axis < last; ++axis) at += index[axis] * strides_[axis];
    const std::byte* from = raw() + at / type.block_values * type.block_bytes;
    if (whole) {
      std::memcpy(to, from, static_cast<size_t>(row_blocks) * value_bytes);
    } else {
      for (int64_t i = 0; i < row_blocks; ++i)
        std::memcpy(to + i * value_bytes, from + i * strides_[last] * value_bytes, value_bytes);
    }
    to += static_cast<size_t>(row_blocks) * value_bytes;
    for (size_t axis = last; axis-- > 0;) {
      if (++index[axis] < shape_[axis]) break;
      index[axis] = 0;
    }
  }
  return copy;
}

}  // namespace butterfly
