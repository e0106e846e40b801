#include "train/data/csv_rows.h"

#include "base/error.h"

namespace butterfly::train {

bool CsvRows::next(std::vector<std::string>& values) {
  values.clear();
  std::string line;
  do {
    if (!std::getline(in_, line)) return false;
    ++lines_;
  } while (line.empty() || line == "\r");
  first_line_ = lines_;
  values.emplace_back();
  bool quoted = false;
  for (size_t i = 0;; ++i) {
    if (i == line.size()) {
      if (!quoted) break;
      if (!std::getline(in_, line)) fail(Errc::kCorrupt, "a quote is not closed");
      ++lines_;
      values.back() += '\n';
      i = static_cast<size_t>(-1);
      continue;
    }
    const char c = line[i];
    if (quoted) {
      if (c != '"') {
        values.back() += c;
      } else if (i + 1 < line.size() && line[i + 1] == '"') {
        values.back() += line[++i];
      } else {
        quoted = false;
      }
    } else if (c == '"' && values.back().empty()) {
      quoted = true;
    } else if (c == ',') {
      values.emplace_back();
    } else if (c != '\r' || i + 1 != line.size()) {
      values.back() += c;
    }
  }
  return true;
}

}  // namespace butterfly::train
