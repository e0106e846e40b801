#include "model/cache/kv_memory.h"

#include "base/check.h"
#include "base/checked.h"
#include "base/error.h"

namespace butterfly::model {
namespace {

size_t page_bytes(const KvShape& shape) { return shape.kv_heads * shape.layout.page_bytes(); }

}  // namespace

size_t kv_bytes_per_position(const KvShape& shape) {
  return shape.layers * page_bytes(shape) / kernels::kKvPage;
}

KvMemory::KvMemory(const KvShape& shape, size_t pages) : shape_(shape), pages_(pages) {
  if (const char* why = kernels::kv_why_not(shape.layout))
    fail(Errc::kUnsupported, "key/value cache of type {} for heads of {}: {}", dtype_name(shape.layout.dtype),
         shape.layout.head_dim, why);
  const auto bytes = checked_mul(pages, page_bytes(shape));
  if (!bytes || !checked_mul(*bytes, shape.layers))
    fail(Errc::kOutOfMemory, "key/value cache: {} pages of {} bytes for each of {} layers do not fit", pages,
         page_bytes(shape), shape.layers);
  layer_bytes_ = *bytes;
  extend(0, shape.layers);
}

void KvMemory::keep(size_t first, size_t count) {
  BF_CHECK(first + count <= layers_.size()) << first << " + " << count << " of " << layers_.size();
  const auto begin = layers_.begin() + static_cast<ptrdiff_t>(first);
  layers_ = std::vector<Buffer>(begin, begin + static_cast<ptrdiff_t>(count));
  extend(0, 0);
}

void KvMemory::extend(size_t before, size_t after) {
  std::vector<Buffer> layers;
  layers.reserve(before + layers_.size() + after);
  for (size_t i = 0; i < before; ++i) layers.push_back(Buffer::allocate(layer_bytes_));
  layers.insert(layers.end(), layers_.begin(), layers_.end());
  for (size_t i = 0; i < after; ++i) layers.push_back(Buffer::allocate(layer_bytes_));
  layers_ = std::move(layers);
  shape_.layers = layers_.size();
  bases_.clear();
  for (const Buffer& layer : layers_) bases_.push_back(layer.data());
}

graph::KvStep KvMemory::step(std::span<const std::span<const uint32_t>> page_ids,
                             std::span<const graph::KvRow> rows) {
  for (const graph::KvRow& row : rows)
    BF_CHECK(row.sequence < page_ids.size() &&
             row.position / kernels::kKvPage < page_ids[row.sequence].size())
        << "row at position " << row.position << " of sequence " << row.sequence << " has no page";
  return {.layout = shape_.layout,
          .layers = bases_,
          .page_stride = page_bytes(shape_),
          .kv_heads = shape_.kv_heads,
          .page_ids = page_ids,
          .rows = rows};
}

}  // namespace butterfly::model
