// The distribution of ratios to the optimum as a picture.
#pragma once
#include <string>
#include <vector>

namespace butterfly::bench {

struct RatioRow {
  std::string name;
  bool ours = false;
  std::vector<double> ratios;  // to the optimum, ascending
  size_t refused = 0;          // clusters where the rule found no split that fits
};

struct RatioPanel {
  std::string title;
  std::vector<RatioRow> rows;
};

// Value below which `share` of the ascending values lie (nearest rank); 0 if there are none.
double quantile(const std::vector<double>& ascending, double share);

// SVG: panels in two columns; a line from the 5th to the 95th percentile, a box over the middle half, a mark
// at the median.
std::string ratio_plot(const std::string& title, const std::vector<RatioPanel>& panels);

}  // namespace butterfly::bench
