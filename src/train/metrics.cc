#include "train/metrics.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"

namespace butterfly::train {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

void append_metrics(const std::filesystem::path& path, uint64_t step, const StepReport& report,
                    double items_per_second, double waited, std::optional<double> valid,
                    std::optional<double> valid_right) {
  Json line = {{"step", step},
               {"loss", report.loss},
               {"grad_norm", report.grad_norm},
               {"learning_rate", report.lr},
               {"targets", report.targets},
               {"correct", report.correct},
               {"seconds", report.seconds},
               {"items_per_second", items_per_second},
               {"utilisation", report.utilisation},
               {"waited_for_data", waited}};
  if (valid) line["eval_loss"] = *valid;
  if (valid_right) line["eval_accuracy"] = *valid_right;
  std::ofstream out(path, std::ios::app | std::ios::binary);
  out << json_text(line) << "\n";
  out.close();
  if (!out) fail(Errc::kIo, "{}: cannot be written", path.string());
}

void keep_metrics_up_to(const std::filesystem::path& path, uint64_t step) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return;
  std::string kept;
  for (std::string line; std::getline(in, line);) {
    const Json json = json_of_text_or_none<Json>(line);
    if (json.is_discarded() || !json.contains("step") || json["step"].get<uint64_t>() > step) break;
    kept += line + "\n";
  }
  const std::filesystem::path fresh = path.string() + ".new";
  std::ofstream out(fresh, std::ios::binary);
  out << kept;
  out.close();
  if (!out) fail(Errc::kIo, "{}: cannot be written", fresh.string());
  std::filesystem::rename(fresh, path);
}

std::vector<MetricsLine> read_metrics(const std::filesystem::path& path) {
  std::vector<MetricsLine> lines;
  std::ifstream in(path, std::ios::binary);
  for (std::string text; std::getline(in, text);) {
    const Json json = json_of_text_or_none<Json>(text);
    if (json.is_discarded() || !json.contains("step") || !json.contains("loss") || !json["loss"].is_number())
      continue;
    MetricsLine line{json["step"].get<uint64_t>(), json["loss"].get<double>(), {}, {}};
    const auto number = [&](const char* key) -> std::optional<double> {
      if (!json.contains(key) || !json[key].is_number()) return std::nullopt;
      return json[key].get<double>();
    };
    line.valid = number("eval_loss");
    line.valid_right = number("eval_accuracy");
    lines.push_back(line);
  }
  return lines;
}

}  // namespace butterfly::train
