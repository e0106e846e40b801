#include "model/cache/kv_memory.h"

#include "base/check.h"
#include "base/checked.h"
#include "base/error.h"

namespace butterfly::model {
namespace {

size_t page_stride(const KvShape& shape) { return shape.layers * shape.kv_heads * shape.layout.page_bytes(); }

}  // namespace

size_t kv_bytes_per_position(const KvShape& shape) { return page_stride(shape) / kernels::kKvPage; }

KvMemory::KvMemory(const KvShape& shape, size_t pages) : shape_(shape), pages_(pages) {
  if (const char* why = kernels::kv_why_not(shape.layout))
    fail(Errc::kUnsupported, "key/value cache of type {} for heads of {}: {}", dtype_name(shape.layout.dtype),
         shape.layout.head_dim, why);
  const auto bytes = checked_mul(pages, page_stride(shape));
  if (!bytes)
    fail(Errc::kOutOfMemory, "key/value cache: {} pages of {} bytes do not fit", pages, page_stride(shape));
  memory_ = Buffer::allocate(*bytes);
}

graph::KvStep KvMemory::step(std::span<const std::span<const uint32_t>> page_ids,
                             std::span<const graph::KvRow> rows) {
  for (const graph::KvRow& row : rows)
    BF_CHECK(row.sequence < page_ids.size() &&
             row.position / kernels::kKvPage < page_ids[row.sequence].size())
        << "row at position " << row.position << " of sequence " << row.sequence << " has no page";
  return {.layout = shape_.layout,
          .base = memory_.data(),
          .page_stride = page_stride(shape_),
          .kv_heads = shape_.kv_heads,
          .page_ids = page_ids,
          .rows = rows};
}

}  // namespace butterfly::model
