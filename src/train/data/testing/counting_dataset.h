// A data set whose item i is the number i, for tests.
#pragma once
#include <fmt/format.h>

#include <string>

#include "train/data/dataset.h"

namespace butterfly::train::testing {

// Immutable: any thread.
class CountingDataset final : public Dataset {
 public:
  explicit CountingDataset(uint64_t size) : size_(size) {}
  uint64_t size() const override { return size_; }
  ItemShape shape() const override { return {.ids = 2, .values = 1, .targets = 1}; }
  void read(uint64_t item, const ItemView& into) const override {
    into.ids[0] = static_cast<int32_t>(item);
    into.ids[1] = static_cast<int32_t>(2 * item);
    into.values[0] = static_cast<float>(item) / 2;
    into.targets[0] = static_cast<int32_t>(item);
  }
  std::string describe() const override { return fmt::format("the numbers below {}", size_); }

 private:
  uint64_t size_;
};

}  // namespace butterfly::train::testing
