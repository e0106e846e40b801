#include "runtime/measure/local_parts.h"

#include "base/check.h"
#include "base/error.h"

namespace butterfly::runtime {

std::vector<model::LayerRange> equal_ranges(size_t layers, size_t count) {
  const size_t pieces = layers + 2;
  if (count == 0 || count > pieces)
    fail(Errc::kInvalidArgument, "{} parts of a model with {} pieces: expected 1 to {}", count, pieces,
         pieces);
  std::vector<model::LayerRange> ranges;
  for (size_t i = 0; i < count; ++i)
    ranges.push_back(model::range_of_pieces(i * pieces / count, (i + 1) * pieces / count, layers));
  return ranges;
}

LocalParts::LocalParts(std::vector<std::unique_ptr<LoadedModel>> parts, ThreadPool& pool,
                       const CachedLayersOptions& options, const RowFormat& format)
    : parts_(std::move(parts)), format_(format) {
  BF_CHECK(!parts_.empty() && parts_.front()->has_embedding() && parts_.back()->has_head());
  if (const std::string why = format.why_not(parts_[0]->config.row_cols()); !why.empty())
    fail(Errc::kInvalidArgument, "rows cannot travel as {}: {}", format.name, why);
  for (const auto& part : parts_) layers_.push_back(std::make_unique<CachedLayers>(*part, pool, options));
}

std::span<const float> LocalParts::run(std::span<const BatchRow> rows) {
  std::span<const float> values;
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (i > 0) {
      bytes_.resize(format_.row_bytes(values.size()));
      hidden_.resize(values.size());
      format_.encode(values, bytes_);
      format_.decode(bytes_, hidden_);
      values = hidden_;
    }
    values = layers_[i]->run(rows, values);
  }
  return values;
}

ScoredModel LocalParts::scored() {
  return {.vocab = parts_[0]->config.vocab,
          .positions = layers_[0]->positions(),
          .rows_max = layers_[0]->rows_max(),
          .run = [this](std::span<const BatchRow> rows) { return run(rows); },
          .forget =
              [this] {
                for (auto& layers : layers_) layers->cache().truncate(0, 0);
              }};
}

}  // namespace butterfly::runtime
