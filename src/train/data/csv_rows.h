// Rows of a .csv file with a line of names first (RFC 4180): values may be quoted, and then hold commas,
// quotes and lines.
#pragma once
#include <istream>
#include <string>
#include <vector>

namespace butterfly::train {

// Reads row by row. One thread.
class CsvRows {
 public:
  explicit CsvRows(std::istream& in) : in_(in) {}
  // False at the end. Empty lines are passed over. Throws Error kCorrupt for a quote that is not closed.
  bool next(std::vector<std::string>& values);
  size_t line() const { return first_line_; }  // where the last row began, from 1

 private:
  std::istream& in_;
  size_t lines_ = 0, first_line_ = 0;
};

}  // namespace butterfly::train
