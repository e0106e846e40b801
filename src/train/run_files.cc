#include "train/run_files.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"

namespace butterfly::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr uint64_t kTextBytesMax = 32 << 20;  // of a file; of a longer one its end
constexpr size_t kPaceSteps = 20;             // that seconds left are taken from

// The end of a file, from the beginning of a line; empty where there is none.
std::string end_of_file(const fs::path& path) {
  std::error_code error;
  const uint64_t bytes = fs::file_size(path, error);
  if (error || !fs::is_regular_file(path, error)) return {};
  std::ifstream in(path, std::ios::binary);
  if (bytes > kTextBytesMax) {
    in.seekg(static_cast<std::streamoff>(bytes - kTextBytesMax));
    std::string torn;
    std::getline(in, torn);
  }
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<Json> lines_of(const std::string& text) {
  std::vector<Json> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    Json line = json_of_text_or_none<Json>(std::string_view(text).substr(at, end - at));
    if (line.is_object() && line.contains("step") && line["step"].is_number_unsigned() &&
        line.contains("loss") && line["loss"].is_number())
      lines.push_back(std::move(line));
    at = end + 1;
  }
  return lines;
}

Json number_or_null(const Json& line, const char* key) {
  return line.contains(key) && line[key].is_number() ? line[key] : Json(nullptr);
}

// Evenly over the run, the last step and every validation among them.
Json points_of(const std::vector<Json>& lines, size_t points_max) {
  Json points = Json::array();
  const size_t every = std::max<size_t>(1, (lines.size() + points_max - 1) / std::max<size_t>(1, points_max));
  for (size_t i = 0; i < lines.size(); ++i) {
    const Json valid = number_or_null(lines[i], "eval_loss");
    if (i % every != 0 && i + 1 != lines.size() && valid.is_null()) continue;
    points.push_back(
        {lines[i]["step"], lines[i]["loss"], valid, number_or_null(lines[i], "items_per_second")});
  }
  return points;
}

double seconds_left(const std::vector<Json>& lines, uint64_t steps) {
  double seconds = 0;
  size_t count = 0;
  for (size_t i = lines.size(); i > 0 && count < kPaceSteps; --i, ++count)
    if (const Json value = number_or_null(lines[i - 1], "seconds"); value.is_number())
      seconds += value.get<double>();
  const uint64_t step = lines.empty() ? 0 : lines.back()["step"].get<uint64_t>();
  return count == 0 || step >= steps
             ? 0
             : static_cast<double>(steps - step) * seconds / static_cast<double>(count);
}

std::string word_in(const fs::path& path) {
  std::string word;
  std::ifstream(path) >> word;
  return word;
}

std::string state_of(const fs::path& folder, uint64_t step, uint64_t steps) {
  const std::string process = word_in(folder / kRunLockFile);
  std::error_code ignored;
  const bool digits = !process.empty() && process.find_first_not_of("0123456789") == std::string::npos;
  if (digits && fs::exists(fs::path("/proc") / process, ignored))
    return word_in(folder / kRunWishFile) == "pause" ? "paused" : "running";
  return steps > 0 && step >= steps ? "done" : "stopped";
}

}  // namespace

void write_run_facts(TrainRun& run, const std::string& name) {
  const TrainerMemory memory = run.trainer().memory();
  const Json json = {{"name", name},
                     {"steps", run.steps()},
                     {"unit", run.unit()},
                     {"micro_batches", run.config().gradient_accumulation_steps},
                     {"memory_bytes",
                      {{"weights", memory.weights},
                       {"gradients", memory.gradients},
                       {"optimizer", memory.optimizer},
                       {"activations", memory.activations}}}};
  const fs::path path = fs::path(run.config().output_dir) / kRunFactsFile, fresh = path.string() + ".new";
  fs::create_directories(path.parent_path());
  std::ofstream out(fresh, std::ios::binary);
  out << json_text(json) << "\n";
  out.close();
  if (!out) fail(Errc::kIo, "{}: cannot be written", fresh.string());
  fs::rename(fresh, path);
}

std::string run_status_json(const fs::path& folder, size_t points_max) {
  std::error_code ignored;
  if (!fs::exists(folder / kRunFactsFile, ignored) && !fs::exists(folder / kMetricsFile, ignored))
    fail(Errc::kNotFound, "{}: no run has begun here; expected the output_dir of 'butterfly train'",
         folder.string());
  Json json = json_of_text_or_none<Json>(end_of_file(folder / kRunFactsFile));
  if (!json.is_object()) json = Json::object();
  const std::vector<Json> lines = lines_of(end_of_file(folder / kMetricsFile));
  const uint64_t step = lines.empty() ? 0 : lines.back()["step"].get<uint64_t>();
  const uint64_t steps =
      json.contains("steps") && json["steps"].is_number_unsigned() ? json["steps"].get<uint64_t>() : 0;
  json["state"] = state_of(folder, step, steps);
  json["step"] = step;
  json["seconds_left"] = json["state"] == "running" ? seconds_left(lines, steps) : 0;
  json["last"] = lines.empty() ? Json(nullptr) : lines.back();
  json["points"] = points_of(lines, points_max);
  const Json nodes = json_of_text_or_none<Json>(end_of_file(folder / kRunNodesFile));
  json["nodes"] = nodes.is_object() && nodes.contains("nodes") && nodes["nodes"].is_array() ? nodes["nodes"]
                                                                                            : Json::array();
  for (const char* key : {"joined", "lost", "wire_mode"})
    if (nodes.is_object() && nodes.contains(key)) json[key] = nodes[key];
  return json_text(json);
}

}  // namespace butterfly::train
