// Pairs of answers to one question, the better one first: what preferences are learned from.
#pragma once
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "train/data/dataset.h"
#include "train/data/token_dataset.h"

namespace butterfly::train {

// An item is two windows, one behind the other, each a document of its own; of both only the answers count.
// Owns the windows. Immutable after the constructor: any thread may read.
class PairDataset final : public Dataset {
 public:
  using Pair = std::pair<Document, Document>;  // chosen, rejected
  // Of documents that are chosen and rejected by turns.
  // Pairs of which one is longer than `length`, or has no answer, are left out and counted. Throws Error
  // kInvalidArgument where none is left.
  PairDataset(const TokenStore& documents, size_t length, int32_t padding, std::string name);

  uint64_t size() const override { return pairs_; }
  ItemShape shape() const override { return {.ids = 2 * length_, .values = 0, .targets = 2 * length_}; }
  void read(uint64_t item, const ItemView& into) const override;
  std::string describe() const override;

 private:
  bool fits(const Document& document) const;
  void put(const Document& document);

  std::string name_, notes_;
  size_t length_;
  int32_t padding_;
  uint64_t pairs_ = 0;
  size_t left_out_ = 0;
  std::vector<int32_t> ids_, targets_;
};

}  // namespace butterfly::train
