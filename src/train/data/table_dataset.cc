#include "train/data/table_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/check.h"
#include "base/error.h"
#include "base/json_text.h"

namespace butterfly::train {
namespace {

constexpr double kClassesMax = 1 << 20;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
    text.remove_suffix(1);
  return text;
}

std::optional<double> number_of(std::string_view text) {
  text = trimmed(text);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  for (size_t at = 0; at <= line.size();) {
    const size_t comma = std::min(line.find(',', at), line.size());
    cells.push_back(line.substr(at, comma - at));
    at = comma + 1;
  }
  return cells;
}

}  // namespace

bool is_table(const std::filesystem::path& path) {
  return path.extension() == ".csv" || path.extension() == ".jsonl";
}

TableDataset::TableDataset(const std::filesystem::path& path) : name_(path.string()) {
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(Errc::kNotFound, "{}: cannot be opened", name_);
  const bool csv = path.extension() == ".csv";
  size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (trimmed(line).empty()) continue;
    const std::string place = fmt::format("{}:{}", name_, number);
    if (csv && number == 1 &&
        std::ranges::none_of(cells_of(line), [](auto cell) { return number_of(cell).has_value(); }))
      continue;  // names of columns
    if (csv)
      add_csv(place, line);
    else
      add_json(place, line);
  }
  if (labels_.empty()) fail(Errc::kInvalidArgument, "{}: has no rows", name_);
}

void TableDataset::add_csv(const std::string& place, std::string_view line) {
  const std::vector<std::string_view> cells = cells_of(line);
  std::vector<float> row;
  for (size_t i = 0; i < cells.size(); ++i) {
    const auto value = number_of(cells[i]);
    if (!value)
      fail(Errc::kCorrupt, "{}: column {}: expected a number, found '{}'", place, i + 1,
           std::string(trimmed(cells[i]).substr(0, 40)));
    if (i + 1 == cells.size()) return add_row(place, row, *value);
    row.push_back(static_cast<float>(*value));
  }
}

void TableDataset::add_json(const std::string& place, std::string_view line) {
  const auto json = json_of_text_or_none<nlohmann::json>(line);
  if (!json.is_object() || !json.contains("values") || !json["values"].is_array() ||
      !json.contains("label") || !json["label"].is_number())
    fail(Errc::kCorrupt, "{}: expected {{\"values\": [numbers], \"label\": number}}", place);
  std::vector<float> row;
  for (const auto& value : json["values"]) {
    if (!value.is_number()) fail(Errc::kCorrupt, "{}: values[{}]: expected a number", place, row.size());
    row.push_back(value.get<float>());
  }
  add_row(place, row, json["label"].get<double>());
}

void TableDataset::add_row(const std::string& place, const std::vector<float>& row, double label) {
  if (row.empty()) fail(Errc::kCorrupt, "{}: has no values", place);
  if (labels_.empty()) columns_ = row.size();
  if (row.size() != columns_)
    fail(Errc::kCorrupt, "{}: {} values, the rows before have {}", place, row.size(), columns_);
  if (!(label >= 0 && label < kClassesMax) || label != std::floor(label))
    fail(Errc::kCorrupt, "{}: the class is {}, expected a whole number from 0 on", place, label);
  values_.insert(values_.end(), row.begin(), row.end());
  labels_.push_back(static_cast<int32_t>(label));
  classes_ = std::max(classes_, static_cast<size_t>(label) + 1);
}

void TableDataset::read(uint64_t item, const ItemView& into) const {
  BF_CHECK(item < size() && into.values.size() == columns_ && into.targets.size() == 1) << name_;
  std::copy_n(values_.begin() + static_cast<ptrdiff_t>(item * columns_), columns_, into.values.begin());
  into.targets[0] = labels_[item];
}

std::string TableDataset::describe() const {
  return fmt::format("{}: {} rows of {} values, {} classes", name_, size(), columns_, classes_);
}

}  // namespace butterfly::train
