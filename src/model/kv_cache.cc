#include "model/kv_cache.h"

#include "base/check.h"
#include "base/checked.h"
#include "base/error.h"

namespace butterfly::model {
namespace {

size_t page_stride(const KvShape& shape) { return shape.layers * shape.kv_heads * shape.layout.page_bytes(); }

}  // namespace

size_t kv_bytes_per_position(const KvShape& shape) { return page_stride(shape) / kernels::kKvPage; }

KvCache::KvCache(const KvShape& shape, size_t positions, size_t sequences)
    : shape_(shape), pages_(sequences) {
  if (const char* why = kernels::kv_why_not(shape.layout))
    fail(Errc::kUnsupported, "key/value cache of type {} for heads of {}: {}", dtype_name(shape.layout.dtype),
         shape.layout.head_dim, why);
  const size_t page_count = ceil_div(positions, kernels::kKvPage);
  const auto bytes = checked_mul(page_count, page_stride(shape));
  if (!bytes)
    fail(Errc::kOutOfMemory, "key/value cache: {} pages of {} bytes do not fit", page_count,
         page_stride(shape));
  memory_ = Buffer::allocate(*bytes);
  for (size_t i = page_count; i > 0; --i) free_.push_back(static_cast<uint32_t>(i - 1));
  page_views_.resize(sequences);
}

bool KvCache::reserve(size_t sequence, size_t positions) {
  auto& pages = pages_.at(sequence);
  const size_t wanted = ceil_div(positions, kernels::kKvPage);
  if (wanted > pages.size() + free_.size()) return false;
  while (pages.size() < wanted) {
    pages.push_back(free_.back());
    free_.pop_back();
  }
  return true;
}

void KvCache::truncate(size_t sequence, size_t positions) {
  auto& pages = pages_.at(sequence);
  const size_t kept = ceil_div(positions, kernels::kKvPage);
  while (pages.size() > kept) {
    free_.push_back(pages.back());
    pages.pop_back();
  }
}

graph::KvStep KvCache::step(std::span<const graph::KvRow> rows) {
  for (const graph::KvRow& row : rows)
    BF_CHECK(row.sequence < pages_.size() && row.position / kernels::kKvPage < pages_[row.sequence].size())
        << "row at position " << row.position << " of sequence " << row.sequence << " has no page";
  for (size_t s = 0; s < pages_.size(); ++s) page_views_[s] = pages_[s];
  return {.layout = shape_.layout,
          .base = memory_.data(),
          .page_stride = page_stride(shape_),
          .kv_heads = shape_.kv_heads,
          .page_ids = page_views_,
          .rows = rows};
}

}  // namespace butterfly::model
