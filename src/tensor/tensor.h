// A typed, shaped view of a shared Buffer. Slicing, reshaping, transposing and broadcasting never copy.
#pragma once
#include <cstdint>

#include "tensor/buffer.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace butterfly {

// Shares its Buffer, so a Tensor keeps its memory alive. Copying one copies the view, not the values (clone()
// does).
//
// Strides are in values (in blocks for the last axis of a quantised type, which is always contiguous and
// whole). Every constructor and view checks that all reachable bytes lie inside the buffer and throws Error
// (kInvalidArgument) naming both numbers otherwise.
class Tensor {
 public:
  Tensor() = default;
  // Contiguous view of `buffer` from byte `offset`.
  Tensor(Buffer buffer, DType dtype, Shape shape, size_t offset = 0);
  // Fresh zeroed memory.
  static Tensor zeros(DType dtype, Shape shape);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t size(size_t axis) const { return shape_[axis]; }
  int64_t stride(size_t axis) const { return strides_[axis]; }
  size_t rank() const { return shape_.rank(); }
  int64_t count() const { return shape_.count(); }
  size_t bytes() const;  // of the values, as if contiguous
  bool contiguous() const;
  const Buffer& buffer() const { return buffer_; }
  explicit operator bool() const { return static_cast<bool>(buffer_); }

  std::byte* raw() const { return buffer_.data() + offset_; }
  // BF_CHECKs that T fits the dtype.
  template <typename T>
  T* data() const {
    check_type(sizeof(T));
    return reinterpret_cast<T*>(raw());
  }

  // Views: O(1), no copy.
  Tensor slice(size_t axis, int64_t begin, int64_t end) const;
  Tensor reshape(Shape shape) const;                     // contiguous tensors only
  Tensor transpose(size_t axis_a, size_t axis_b) const;  // not the last axis of a quantised type
  Tensor broadcast(Shape shape) const;                   // sizes of 1 repeat with stride 0; new axes in front

  // Copies. Named because they cost.
  Tensor clone() const;  // contiguous

 private:
  void check_type(size_t value_bytes) const;
  void check_bounds(const char* what) const;

  Buffer buffer_;
  DType dtype_ = DType::kF32;
  Shape shape_;
  std::array<int64_t, kMaxRank> strides_{};
  size_t offset_ = 0;
};

}  // namespace butterfly
