#include "server/context/metrics_text.h"

#include <fmt/format.h>

namespace butterfly::server {
namespace {

std::string labels_text(const Labels& labels) {
  if (labels.empty()) return {};
  std::string out = "{";
  for (const auto& [name, value] : labels) {
    if (out.size() > 1) out += ',';
    out += name + "=\"";
    for (const char c : value) {
      if (c == '\\' || c == '"') out += '\\';
      if (c == '\n') {
        out += "\\n";
      } else {
        out += c;
      }
    }
    out += '"';
  }
  return out + "}";
}

}  // namespace

void MetricsText::family(std::string_view name, std::string_view type, std::string_view help) {
  text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void MetricsText::value(std::string_view name, const Labels& labels, double value) {
  text_ += fmt::format("{}{} {}\n", name, labels_text(labels), value);
}

void MetricsText::histogram(std::string_view name, const Labels& labels,
                            const runtime::Histogram& histogram) {
  uint64_t below = 0;
  for (size_t i = 0; i < runtime::Histogram::kBuckets; ++i) {
    below += histogram.buckets()[i];
    Labels with = labels;
    with.emplace_back("le", i < runtime::Histogram::kSeconds.size()
                                ? fmt::format("{}", runtime::Histogram::kSeconds[i])
                                : "+Inf");
    value(fmt::format("{}_bucket", name), with, static_cast<double>(below));
  }
  value(fmt::format("{}_sum", name), labels, histogram.sum_seconds());
  value(fmt::format("{}_count", name), labels, static_cast<double>(histogram.count()));
}

}  // namespace butterfly::server
