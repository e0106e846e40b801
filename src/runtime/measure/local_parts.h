// A model cut into parts on one machine, with rows between them as they would travel: what a row format
// costs.
#pragma once
#include <memory>
#include <vector>

#include "runtime/chain/row_format.h"
#include "runtime/measure/perplexity.h"

namespace butterfly::runtime {

// Ranges of `count` parts, as equal in pieces as can be. Throws Error kInvalidArgument for more parts than
// pieces.
std::vector<model::LayerRange> equal_ranges(size_t layers, size_t count);

// One thread at a time. Borrows the pool.
class LocalParts {
 public:
  // Parts of one model, first to last, which make it whole. Throws Error kInvalidArgument when rows cannot
  // travel in the format.
  LocalParts(std::vector<std::unique_ptr<LoadedModel>> parts, ThreadPool& pool,
             const CachedLayersOptions& options, const RowFormat& format);

  // As CachedLayers::run() of the whole model.
  std::span<const float> run(std::span<const BatchRow> rows);
  // Of the first part. Throws Error kNotFound when there is none.
  const model::Tokenizer& tokenizer() const { return parts_[0]->tokenizer_or_throw(); }
  // Borrows this.
  ScoredModel scored();

 private:
  std::vector<std::unique_ptr<LoadedModel>> parts_;
  std::vector<std::unique_ptr<CachedLayers>> layers_;
  const RowFormat& format_;
  std::vector<std::byte> bytes_;
  std::vector<float> hidden_;
};

}  // namespace butterfly::runtime
