#include "train/data/split_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/error.h"
#include "train/data/shuffle.h"

namespace butterfly::train {
namespace {

// Items [begin, begin + count) in the order of a shuffle. Shares the data with the other part.
class Part final : public Dataset {
 public:
  Part(std::shared_ptr<const Dataset> data, const Shuffle& order, uint64_t begin, uint64_t count,
       const char* words)
      : data_(std::move(data)), order_(order), begin_(begin), count_(count), words_(words) {}
  uint64_t size() const override { return count_; }
  ItemShape shape() const override { return data_->shape(); }
  void read(uint64_t item, const ItemView& into) const override {
    BF_CHECK(item < count_);
    data_->read(order_[begin_ + item], into);
  }
  std::string describe() const override {
    return fmt::format("{}; {} {}", data_->describe(), count_, words_);
  }

 private:
  std::shared_ptr<const Dataset> data_;
  Shuffle order_;
  uint64_t begin_, count_;
  const char* words_;
};

}  // namespace

std::pair<std::unique_ptr<Dataset>, std::unique_ptr<Dataset>> split(std::unique_ptr<Dataset> data,
                                                                    uint64_t kept, uint64_t seed) {
  const std::shared_ptr<const Dataset> shared = std::move(data);
  const uint64_t items = shared->size();
  if (kept >= items)
    fail(Errc::kInvalidArgument,
         "val_set_size: {} of {} items are kept for validation, and nothing is left to learn", kept, items);
  const Shuffle order(items, seed, 0);
  return {std::make_unique<Part>(shared, order, kept, items - kept, "of them to learn"),
          std::make_unique<Part>(shared, order, 0, kept, "of them for validation")};
}

uint64_t kept_items(uint64_t items, double val_set_size) {
  if (val_set_size >= 1) return static_cast<uint64_t>(val_set_size);
  return std::max<uint64_t>(1,
                            static_cast<uint64_t>(std::llround(val_set_size * static_cast<double>(items))));
}

}  // namespace butterfly::train
