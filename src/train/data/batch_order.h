// Which items stand in which batch: a function of (seed, batch index), so batches can be made in any order,
// by any thread, and again after a restart.
#pragma once
#include <cstdint>
#include <functional>

#include "train/data/dataset.h"

namespace butterfly::train {

struct BatchOrderOptions {
  size_t rows = 1;  // items in a batch
  uint64_t seed = 0;
  bool shuffle = true;
  // The last batch of an epoch may have fewer rows (for evaluation). Otherwise items that fill no whole batch
  // wait for the next epoch, which shuffles again.
  bool keep_rest = false;
  // What is done to an item after it was read, every time anew: from any thread, and of (batch, row) alone.
  std::function<void(uint64_t batch, size_t row, const ItemView& item)> change = {};
};

// Borrows the data set. Immutable and shared by threads.
class BatchOrder {
 public:
  // Throws Error kInvalidArgument when the data set has not even one batch.
  BatchOrder(const Dataset& data, const BatchOrderOptions& options);

  uint64_t batches_per_epoch() const { return per_epoch_; }
  const Dataset& data() const { return data_; }
  size_t rows() const { return options_.rows; }
  // The item at `row` of batch `index`; batches are counted through all epochs.
  uint64_t item(uint64_t index, size_t row) const;
  void fill(uint64_t index, Batch& batch) const;

 private:
  const Dataset& data_;
  BatchOrderOptions options_;
  uint64_t per_epoch_;
};

}  // namespace butterfly::train
