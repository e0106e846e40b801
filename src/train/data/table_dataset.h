// Rows of numbers with a class each, from .csv or .jsonl files.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "train/data/dataset.h"

namespace butterfly::train {

// Whether a file is read as a table, by its name.
bool is_table(const std::filesystem::path& path);

// A .csv line is numbers, separated by commas, the last one the class (0, 1, ...); a first line of names is
// passed over. A .jsonl line is {"values": [...], "label": 3}. In memory; immutable after the constructor:
// any thread may read. Values are taken as they are.
class TableDataset final : public Dataset {
 public:
  // Throws Error naming file and line: what is no number, rows of unequal length.
  explicit TableDataset(const std::filesystem::path& path);

  uint64_t size() const override { return labels_.size(); }
  ItemShape shape() const override { return {.ids = 0, .values = columns_, .targets = 1}; }
  void read(uint64_t item, const ItemView& into) const override;
  std::string describe() const override;
  size_t columns() const { return columns_; }  // without the class
  size_t classes() const { return classes_; }

 private:
  void add_csv(const std::string& place, std::string_view line);
  void add_json(const std::string& place, std::string_view line);
  void add_row(const std::string& place, const std::vector<float>& row, double label);

  std::string name_;
  std::vector<float> values_;
  std::vector<int32_t> labels_;
  size_t columns_ = 0, classes_ = 0;
};

}  // namespace butterfly::train
