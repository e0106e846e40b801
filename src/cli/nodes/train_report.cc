#include "cli/nodes/train_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/json_text.h"
#include "base/units.h"
#include "runtime/training/wire_forecast.h"

namespace butterfly::cli {
namespace {

using Json = nlohmann::ordered_json;

// Calls read(json), and says where a field is missing or of another kind.
template <typename Read>
std::string read_report(std::string_view text, Read read) {
  const Json json = json_of_text_or_none<Json>(text);
  try {
    return read(json);
  } catch (const nlohmann::json::exception& error) {
    fail(Errc::kCorrupt, "{}: {}", kTrainNodesFile, error.what());
  }
}

// The columns between a name and the end of a line.
std::vector<double> figures_of(const Json& node) {
  std::vector<double> figures;
  for (const Json& seconds : node.at("seconds")) figures.push_back(seconds.get<double>());
  return figures;
}

std::string seconds_columns(const std::vector<double>& seconds) {
  std::string columns;
  for (const double value : seconds) columns += fmt::format("  {:>8.2f}s", value);
  return columns;
}

// What the least, the middle and the most of the nodes spent on each.
std::string spread_lines(const Json& nodes, size_t width) {
  std::vector<std::vector<double>> by_column;
  for (const Json& node : nodes) {
    const std::vector<double> figures = figures_of(node);
    by_column.resize(figures.size());
    for (size_t i = 0; i < figures.size(); ++i) by_column[i].push_back(figures[i]);
  }
  for (auto& column : by_column) std::ranges::sort(column);
  std::string lines;
  for (const auto& [name, part] : {std::pair{"min", 0.0}, std::pair{"median", 0.5}, std::pair{"max", 1.0}}) {
    std::vector<double> row;
    for (const auto& column : by_column)
      row.push_back(column[static_cast<size_t>(part * static_cast<double>(column.size() - 1))]);
    lines += fmt::format("{:<{}}  {:>13}  {:>9}  {:>6}{}\n", name, width, "", "", "", seconds_columns(row));
  }
  return lines;
}

std::string wire_line(const Json& json) {
  uint64_t as_floats = 0, as_sent = 0;
  for (const Json& node : json.at("nodes")) {
    as_floats += node.at("gradient_bytes").get<uint64_t>();
    as_sent += node.at("gradient_bytes_sent").get<uint64_t>();
  }
  const auto mode = json.at("wire_mode").get<std::string>();
  std::string line = fmt::format("gradients: {}", mode);
  if (mode != "exact")
    line += fmt::format(" in {} slots, which is not the result of exact sums",
                        json.at("wire_slots").get<uint64_t>());
  if (as_sent > 0 && as_sent != as_floats)
    line +=
        fmt::format("; {} sent for {} of floats, {:.2f} x smaller", format_bytes(as_sent),
                    format_bytes(as_floats), static_cast<double>(as_floats) / static_cast<double>(as_sent));
  line += "\na step: " + json.value("wire_forecast", std::string("not known"));
  // Of the leading node: others have links of their own, in the JSON.
  const Json& first = json.at("nodes").at(0);
  if (const double beside = first.value("seconds_beside", 0.0); beside > 0)
    line += fmt::format("\nbeside computing: {:.2f} s of sending that nobody waited for", beside);
  return line + fmt::format("\ncompression: gradients {}; weights {}\n",
                            first.at("compress_gradients").get<std::string>(),
                            first.at("compress_weights").get<std::string>());
}

std::string label(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c == '\n' ? ' ' : c;
  }
  return escaped;
}

}  // namespace

std::string training_report_json(const runtime::TrainingReport& report, uint64_t steps,
                                 std::string_view state) {
  const auto& c = report.counters;
  Json json{{"state", state},
            {"step", report.step},
            {"steps", steps},
            {"epochs", c.epochs},
            {"joined", c.joined},
            {"lost", c.lost},
            {"steps_dealt_again", c.steps_redone},
            {"steps_computed_again", c.steps_rolled_back},
            {"nodes_that_differed", c.differing},
            {"nodes_cut_short", c.cut_short},
            {"wire_mode", report.wire},
            {"wire_slots", report.plan.slots},
            {"wire_forecast", runtime::wire_forecast_text(runtime::wire_measured(report))},
            {"forecasts", Json::array()},
            {"nodes", Json::array()}};
  for (const auto& row : runtime::forecast_wire(runtime::wire_measured(report)))
    json["forecasts"].push_back(
        {{"mode", row.mode}, {"step_s", row.step_s}, {"update_s", row.update_s}, {"bytes", row.bytes}});
  for (const auto& member : report.members) {
    Json seconds = Json::object();
    double total = 0;
    for (const auto& field : cluster::kTrainTimeFields) {
      seconds[std::string(field.name)] = member.times.*field.seconds;
      total += member.times.*field.seconds;
    }
    json["nodes"].push_back(
        {{"name", member.name},
         {"number", member.id},
         {"here", member.here},
         {"micro_batches", member.leaves},
         {"micro_batches_per_s", total > 0 ? static_cast<double>(member.leaves) / total : 0.0},
         {"micro_batches_per_compute_s", member.speed},
         {"blocks", member.shard_end - member.shard_begin},
         {"seconds", seconds},
         {"seconds_beside", member.times.beside},
         {"cpu_seconds", member.cpu_seconds},
         {"cpu_seconds_per_gb",
          member.bytes_sent > 0 ? member.cpu_seconds / (1e-9 * static_cast<double>(member.bytes_sent)) : 0.0},
         {"gradient_bytes", member.gradient_bytes},
         {"gradient_bytes_sent", member.gradient_bytes_sent},
         {"weight_bytes", member.weight_bytes},
         {"weight_bytes_sent", member.weight_bytes_sent},
         {"compress_gradients", member.packing_gradients},
         {"compress_weights", member.packing_weights},
         {"bytes_sent", member.bytes_sent},
         {"bytes_received", member.bytes_received}});
  }
  return json_text(json);
}

std::string training_report_text(std::string_view text) {
  return read_report(text, [](const Json& json) {
    size_t width = 6;
    for (const Json& node : json.at("nodes"))
      width = std::max(width, node.at("name").get<std::string>().size());
    std::string lines =
        fmt::format("{:<{}}  {:>13}  {:>9}  {:>6}", "NODE", width, "MICRO-BATCHES", "PER S", "BLOCKS");
    for (const auto& field : cluster::kTrainTimeFields) {
      std::string name(field.name);
      std::ranges::transform(name, name.begin(), [](char c) { return static_cast<char>(std::toupper(c)); });
      lines += fmt::format("  {:>9}", name);
    }
    lines += fmt::format("  {:>9}  {:>9}\n", "SENT", "RECEIVED");
    for (const Json& node : json.at("nodes"))
      lines +=
          fmt::format("{:<{}}  {:>13}  {:>9.1f}  {:>6}{}  {:>9}  {:>9}{}\n",
                      node.at("name").get<std::string>(), width, node.at("micro_batches").get<uint64_t>(),
                      node.at("micro_batches_per_s").get<double>(), node.at("blocks").get<uint64_t>(),
                      seconds_columns(figures_of(node)), format_bytes(node.at("bytes_sent").get<uint64_t>()),
                      format_bytes(node.at("bytes_received").get<uint64_t>()),
                      node.at("here").get<bool>() ? "" : "  lost");
    if (json.at("nodes").size() > 2) lines += spread_lines(json.at("nodes"), width);
    return lines + wire_line(json) +
           fmt::format(
               "{}: step {} of {}; {} joined, {} lost, {} steps dealt again, {} computed again from a "
               "snapshot\n",
               json.at("state").get<std::string>(), json.at("step").get<uint64_t>(),
               json.at("steps").get<uint64_t>(), json.at("joined").get<uint64_t>(),
               json.at("lost").get<uint64_t>(), json.at("steps_dealt_again").get<uint64_t>(),
               json.at("steps_computed_again").get<uint64_t>());
  });
}

std::string training_report_metrics(std::string_view text) {
  return read_report(text, [](const Json& json) {
    std::string lines;
    const auto metric = [&](std::string_view name, std::string_view kind, std::string_view words) {
      lines +=
          fmt::format("# HELP butterfly_train_{0} {2}\n# TYPE butterfly_train_{0} {1}\n", name, kind, words);
    };
    const auto one = [&](std::string_view name, std::string_view kind, std::string_view words,
                         const char* key) {
      metric(name, kind, words);
      lines += fmt::format("butterfly_train_{} {}\n", name, json.at(key).get<uint64_t>());
    };
    one("step", "gauge", "Steps done.", "step");
    one("steps", "gauge", "Steps of the run.", "steps");
    one("nodes_lost_total", "counter", "Nodes that were lost.", "lost");
    one("steps_dealt_again_total", "counter", "Steps dealt again after a loss.", "steps_dealt_again");
    one("steps_computed_again_total", "counter", "Steps computed again from a snapshot.",
        "steps_computed_again");
    const auto of_nodes = [&](std::string_view name, std::string_view words, const char* key) {
      metric(name, "counter", words);
      for (const Json& node : json.at("nodes"))
        lines += fmt::format("butterfly_train_{}{{node=\"{}\",member=\"{}\"}} {}\n", name,
                             label(node.at("name").get<std::string>()), node.at("number").get<uint64_t>(),
                             node.at(key).get<uint64_t>());
    };
    of_nodes("micro_batches_total", "Micro-batches computed.", "micro_batches");
    of_nodes("sent_bytes_total", "Bytes sent over the links of now.", "bytes_sent");
    of_nodes("received_bytes_total", "Bytes received over the links of now.", "bytes_received");
    of_nodes("gradient_bytes_total", "Gradients that were sent, as floats.", "gradient_bytes");
    of_nodes("gradient_sent_bytes_total", "Gradients as they were sent.", "gradient_bytes_sent");
    of_nodes("weight_bytes_total", "New weights that were sent, as floats.", "weight_bytes");
    of_nodes("weight_sent_bytes_total", "New weights as they were sent.", "weight_bytes_sent");
    metric("seconds_total", "counter", "Seconds since the first step, by what they went to.");
    for (const Json& node : json.at("nodes"))
      for (const auto& [what, seconds] : node.at("seconds").items())
        lines +=
            fmt::format("butterfly_train_seconds_total{{node=\"{}\",member=\"{}\",what=\"{}\"}} {:.6f}\n",
                        label(node.at("name").get<std::string>()), node.at("number").get<uint64_t>(), what,
                        seconds.get<double>());
    metric("seconds_beside_total", "counter", "Seconds of sending while the node computed.");
    for (const Json& node : json.at("nodes"))
      lines += fmt::format("butterfly_train_seconds_beside_total{{node=\"{}\",member=\"{}\"}} {:.6f}\n",
                           label(node.at("name").get<std::string>()), node.at("number").get<uint64_t>(),
                           node.value("seconds_beside", 0.0));
    metric("cpu_seconds_total", "counter", "CPU seconds of the node's process, all threads, computing too.");
    for (const Json& node : json.at("nodes"))
      lines += fmt::format("butterfly_train_cpu_seconds_total{{node=\"{}\",member=\"{}\"}} {:.6f}\n",
                           label(node.at("name").get<std::string>()), node.at("number").get<uint64_t>(),
                           node.value("cpu_seconds", 0.0));
    return lines;
  });
}

}  // namespace butterfly::cli
