#include "train/data/batch_order.h"

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"
#include "train/data/shuffle.h"

namespace butterfly::train {

BatchOrder::BatchOrder(const Dataset& data, const BatchOrderOptions& options)
    : data_(data),
      options_(options),
      per_epoch_(options.keep_rest ? ceil_div(data.size(), options.rows) : data.size() / options.rows) {
  if (per_epoch_ == 0)
    fail(Errc::kInvalidArgument, "{}: {} items do not fill one batch of {}", data.describe(), data.size(),
         options.rows);
}

uint64_t BatchOrder::item(uint64_t index, size_t row) const {
  const uint64_t place = index % per_epoch_ * options_.rows + row;
  return options_.shuffle ? Shuffle(data_.size(), options_.seed, index / per_epoch_)[place] : place;
}

void BatchOrder::fill(uint64_t index, Batch& batch) const {
  const uint64_t begin = index % per_epoch_ * options_.rows;
  batch.resize(std::min<uint64_t>(options_.rows, data_.size() - begin), data_.shape());
  batch.index = index;
  batch.epoch = index / per_epoch_;
  for (size_t row = 0; row < batch.rows; ++row) {
    data_.read(item(index, row), batch.row(row));
    if (options_.change) options_.change(index, row, batch.row(row));
  }
}

}  // namespace butterfly::train
