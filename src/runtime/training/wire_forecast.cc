#include "runtime/training/wire_forecast.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"

namespace butterfly::runtime {
namespace {

struct Mode {
  std::string_view name;
  double gradient_bytes;  // of a parameter
  bool lossless, local;
};

// Blocks of 128 have a scale.
constexpr double kInt8 = 1 + 4.0 / 128, kInt4 = 0.5 + 4.0 / 64;
constexpr Mode kModes[] = {{"exact", 4, true, false},
                           {"bf16", 2, false, false},
                           {"int8", kInt8, false, false},
                           {"local-steps", kInt8, false, true},
                           {"local-steps-int4", kInt4, false, true}};

}  // namespace

WireMeasured wire_measured(const TrainingReport& report) {
  WireMeasured measured{.parameter_bytes = report.parameter_bytes, .local_steps = report.local_steps};
  measured.nodes = report.plan.members.size();
  if (report.plan.pipelined() || report.steps_made == 0) return measured;
  const auto steps = static_cast<double>(report.steps_made);
  double gradients = 0, gradients_sent = 0, weights = 0, weights_sent = 0;
  for (const TrainMemberReport& member : report.members) {
    if (!member.here) continue;
    const cluster::TrainTimes& t = member.times;
    const double compute = (t.compute + t.serialise + t.compress + t.reduce + t.update) / steps;
    const auto sent = static_cast<double>(member.gradient_bytes_sent + member.weight_bytes_sent);
    // Others wait for the one that computes longest; what that one does not compute goes to links: handing
    // bytes over says little, since the system takes some megabytes at once and sends them later.
    if (compute > measured.compute_s) {
      measured.compute_s = compute;
      measured.beside_s = t.beside / steps;
      const double links = t.wire + t.wait + t.beside;
      measured.bytes_per_s = links > 0 ? sent / links : 0;
    }
    gradients += static_cast<double>(member.gradient_bytes);
    gradients_sent += static_cast<double>(member.gradient_bytes_sent);
    weights += static_cast<double>(member.weight_bytes);
    weights_sent += static_cast<double>(member.weight_bytes_sent);
  }
  if (report.wire == "exact" && gradients_sent > 0) measured.gradient_ratio = gradients / gradients_sent;
  if (weights_sent > 0) measured.weight_ratio = weights / weights_sent;
  return measured;
}

std::vector<WireForecast> forecast_wire(const WireMeasured& m) {
  std::vector<WireForecast> rows;
  if (m.nodes < 2 || m.bytes_per_s <= 0 || m.parameter_bytes == 0) return rows;
  const double part = static_cast<double>(m.nodes - 1) / static_cast<double>(m.nodes);
  const double count = static_cast<double>(m.parameter_bytes) / 4;
  for (const Mode& mode : kModes) {
    WireForecast row{.mode = mode.name, .lossless = mode.lossless};
    // What was coded in fewer bits is hardly compressed any further.
    const double gradients = count * mode.gradient_bytes / (mode.lossless ? m.gradient_ratio : 1);
    row.bytes = part * (gradients + count * 4 / m.weight_ratio);
    // Changes of local steps are known when all of them are made.
    const double beside = mode.local ? 0 : std::min(m.beside_s, part * gradients / m.bytes_per_s);
    row.step_s = m.compute_s + row.bytes / m.bytes_per_s - beside;
    row.update_s = row.step_s / static_cast<double>(mode.local ? std::max<size_t>(1, m.local_steps) : 1);
    rows.push_back(row);
  }
  return rows;
}

std::string wire_forecast_text(const WireMeasured& measured) {
  const std::vector<WireForecast> rows = forecast_wire(measured);
  if (rows.empty()) return "nothing was sent yet that could be measured";
  std::string text = fmt::format("{:.3f} s of computing, links take {}/s: ", measured.compute_s,
                                 format_bytes(static_cast<uint64_t>(measured.bytes_per_s)));
  for (size_t i = 0; i < rows.size(); ++i)
    text += fmt::format(
        "{}{} {:.3f} s{}", i == 0 ? "" : ", ", rows[i].mode, rows[i].step_s,
        rows[i].update_s < rows[i].step_s ? fmt::format(" ({:.3f} s an update)", rows[i].update_s) : "");
  const auto best = std::ranges::min_element(rows, {}, &WireForecast::step_s);
  const double gain = rows[0].step_s / best->step_s;
  if (gain < 1.05) return text + "; exact loses nothing, and less than 5 % could be gained";
  return text +
         fmt::format("; {} would be {:.2f} x as fast, but changes the weights: only where wire_mode says so",
                     best->mode, gain);
}

}  // namespace butterfly::runtime
