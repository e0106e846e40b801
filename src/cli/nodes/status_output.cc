#include "cli/nodes/status_output.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <vector>

#include "base/units.h"
#include "cli/nodes/firewall.h"
#include "cluster/partition/partitioner.h"
#include "cluster/partition/reasons.h"

namespace butterfly::cli {
namespace {

using cluster::ClusterStatus;
using cluster::NodeStatus;

std::string seconds_text(double seconds) {
  return format_duration(std::chrono::nanoseconds(static_cast<int64_t>(std::min(seconds, 1e9) * 1e9)));
}

std::string rate_text(double bytes_per_s) {
  return format_bytes(static_cast<uint64_t>(std::min(bytes_per_s, 1e15))) + "/s";
}

std::string first_line(const ClusterStatus& s) {
  const auto up = std::count_if(s.nodes.begin(), s.nodes.end(),
                                [](const NodeStatus& node) { return node.state == "up"; });
  std::string out;
  if (s.serving) {
    out = fmt::format("serving {} for {}, plan {}, {} of {} nodes up", s.model, seconds_text(s.serving_s),
                      s.plan, up, s.nodes.size());
    if (s.predicted_tokens_per_s > 0)
      out += fmt::format(", {:.1f} tok/s predicted", s.predicted_tokens_per_s);
    if (!s.change.empty()) out += fmt::format("; a new plan: {}", s.change);
  } else {
    out = fmt::format("not serving{}{}: {}; {} of {} nodes up", s.model.empty() ? "" : " ", s.model, s.reason,
                      up, s.nodes.size());
  }
  return out + "\n";
}

// Where there are several, each has a plan of its own.
std::string job_lines(const ClusterStatus& s) {
  if (s.jobs.size() < 2) return {};
  std::string out;
  for (const cluster::JobStatus& job : s.jobs) {
    if (job.serving)
      out += fmt::format("  {}: {} for {}, plan {}, {} stage{}\n", job.id, job.model,
                         seconds_text(job.serving_s), job.plan, job.stages.size(),
                         job.stages.size() == 1 ? "" : "s");
    else
      out += fmt::format("  {}: {}: {}\n", job.id, job.model, job.reason);
  }
  return out;
}

// "0-3", or of several jobs "1: 0-3, 2: 5-8".
std::string layers_text(const NodeStatus& n) {
  if (n.jobs.size() < 2) return n.begin && n.end ? fmt::format("{}-{}", *n.begin, *n.end - 1) : "-";
  std::string out;
  for (const cluster::NodeJobStatus& job : n.jobs)
    if (job.begin && job.end)
      out += fmt::format("{}{}: {}-{}", out.empty() ? "" : ", ", job.job, *job.begin, *job.end - 1);
  return out.empty() ? "-" : out;
}

std::vector<std::string> cells(const NodeStatus& n) {
  const bool loading = n.load_total > 0 && (n.phase == "loading" || n.phase == "preparing");
  std::string role = n.role.empty() ? "-" : n.role;
  if (loading)
    role = fmt::format("{} {:.0f} %", n.phase,
                       100.0 * static_cast<double>(n.load_done) / static_cast<double>(n.load_total));
  return {n.name,
          n.state,
          role,
          fmt::format("{} x {}", n.threads, n.target),
          n.ram_free_bytes > 0
              ? fmt::format("{} of {}", format_bytes(n.ram_free_bytes), format_bytes(n.ram_bytes))
              : format_bytes(n.ram_bytes),
          n.disk_bytes_per_s > 0 ? rate_text(n.disk_bytes_per_s) : "-",
          layers_text(n),
          n.begin ? fmt::format("{:.1f}", n.rows_per_s) : "-",
          n.link_bandwidth > 0
              ? fmt::format("{}, {}", seconds_text(n.link_rtt_s), rate_text(n.link_bandwidth))
              : "-",
          n.program.empty() ? "-" : n.program};
}

// Which go first where a terminal is narrow: machines rarely change.
constexpr size_t kVersion = 9, kDisk = 5, kCpu = 3, kRam = 4, kLink = 8;
constexpr size_t kLeaveOut[] = {kVersion, kDisk, kCpu, kLink, kRam};
constexpr size_t kGap = 2;

std::string table(const ClusterStatus& s, size_t columns) {
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "STATE", "ROLE", "CPU", "RAM FREE", "DISK", "LAYERS", "TOK/S", "LINK", "VERSION"}};
  for (const NodeStatus& node : s.nodes) rows.push_back(cells(node));
  std::vector<size_t> width(rows[0].size());
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
  size_t needed = 0;
  for (const size_t w : width) needed += w + kGap;
  for (const size_t i : kLeaveOut) {
    if (needed - kGap <= columns) break;
    needed -= width[i] + kGap;
    width[i] = 0;
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      if (width[i] > 0) line += fmt::format("{:<{}}", row[i], width[i] + kGap);
    out += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  return out;
}

// Somebody who has just joined a machine wants to know why it does nothing.
std::string idle(const ClusterStatus& s) {
  std::vector<std::string> names;
  for (const NodeStatus& node : s.nodes)
    if (s.serving && s.change.empty() && node.state == "up" && node.role == "idle")
      names.push_back(node.name);
  if (names.empty()) return {};
  // No strategy makes room.
  const bool no_room = s.words.find(cluster::kRoomForNothing) != std::string::npos;
  const std::string advice = no_room ? ""
                                     : fmt::format(" ('serve --strategy {}' gives every node a part)",
                                                   cluster::first_strategy(cluster::NodeChoice::kAll).name);
  return fmt::format("idle: {}: the plan does without{}{}{}\n", fmt::join(names, ", "), advice,
                     s.words.empty() ? "" : ": ", s.words);
}

std::string unreachable(const ClusterStatus& s) {
  std::string out;
  for (const cluster::UnreachableStatus& row : s.unreachable)
    out += fmt::format("unreachable: {} cannot reach {} at {}: {}; on {}: {}\n", row.from, row.to,
                       row.address, row.why, row.to, firewall_commands(port_of(row.address)));
  return out;
}

std::string refused(const ClusterStatus& s) {
  std::string out;
  for (const cluster::RefusedStatus& row : s.refused)
    out += fmt::format("refused: {}, {} ago, {} time{}: {}\n", row.name, seconds_text(row.ago_s), row.times,
                       row.times == 1 ? "" : "s", row.why);
  return out;
}

std::string losses(const ClusterStatus& s) {
  std::string out;
  for (const NodeStatus& node : s.nodes)
    if (node.loss) out += fmt::format("  {}: {}\n", node.name, node.loss->words);
  return out.empty() ? out : "if a node is lost:\n" + out;
}

std::string events(const ClusterStatus& s, size_t events_max) {
  std::string out;
  const size_t first = s.events.size() - std::min(s.events.size(), events_max);
  for (size_t i = first; i < s.events.size(); ++i) {
    const cluster::EventStatus& event = s.events[i];
    const std::time_t when = event.unix_ms / 1000;
    out += fmt::format("  {:%H:%M:%S} {}{}{}{}{}\n", fmt::localtime(when), event.node,
                       event.node.empty() ? "" : " ", event.kind, event.text.empty() ? "" : ": ", event.text);
  }
  return out.empty() ? out : "last events:\n" + out;
}

}  // namespace

std::string status_text(const ClusterStatus& status, size_t events_max, size_t columns) {
  std::string out = first_line(status) + job_lines(status) + table(status, columns) + idle(status) +
                    unreachable(status) + refused(status) + losses(status);
  if (!status.last_failure.empty()) out += fmt::format("last failure: {}\n", status.last_failure);
  for (const cluster::JobStatus& job : status.jobs)
    if (job.rows_again > 0)
      out += fmt::format("{}: {} rows were computed again after changes, through {} layers on average\n",
                         job.model, job.rows_again,
                         (job.row_layers_again + job.rows_again / 2) / job.rows_again);
  return out + events(status, events_max);
}

std::string page_over(const std::string& text, size_t rows, size_t columns) {
  std::istringstream in(text);
  std::string out = "\033[H", line;
  for (size_t row = 0; row < rows && std::getline(in, line); ++row)
    out += fmt::format("{}{:.{}}\033[K", row == 0 ? "" : "\r\n", line, columns);
  return out + "\033[J";
}

}  // namespace butterfly::cli
