// Prometheus' text form.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/engine/stats.h"

namespace butterfly::server {

using Labels = std::vector<std::pair<std::string, std::string>>;

// Grows line by line: a family, then its values. One thread.
class MetricsText {
 public:
  void family(std::string_view name, std::string_view type, std::string_view help);
  void value(std::string_view name, const Labels& labels, double value);
  void histogram(std::string_view name, const Labels& labels, const runtime::Histogram& histogram);
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace butterfly::server
