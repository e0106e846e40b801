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

std::string job_line(const cluster::JobStatus& job) {
  if (!job.serving) return fmt::format("{}: {}", job.model, job.reason);
  std::string out = fmt::format("{} for {}, plan {}, {} stage{}", job.model, seconds_text(job.serving_s),
                                job.plan, job.stages.size(), job.stages.size() == 1 ? "" : "s");
  if (job.predicted_tokens_per_s > 0)
    out += fmt::format(", {:.1f} tok/s predicted", job.predicted_tokens_per_s);
  if (!job.change.empty()) out += fmt::format("; a new plan: {}", job.change);
  return out;
}

std::string first_line(const ClusterStatus& s) {
  const auto up = std::count_if(s.nodes.begin(), s.nodes.end(),
                                [](const NodeStatus& node) { return node.state == "up"; });
  const std::string nodes = fmt::format("{} of {} nodes up", up, s.nodes.size());
  if (s.serving())
    return fmt::format("serving {}; {}\n", s.jobs.size() == 1 ? job_line(s.jobs.front()) : s.models(), nodes);
  return fmt::format("not serving{}{}: {}; {}\n", s.jobs.empty() ? "" : " ", s.models(), s.reason(), nodes);
}

// Where there are several, each has a plan of its own.
std::string job_lines(const ClusterStatus& s) {
  std::string out;
  if (s.jobs.size() > 1)
    for (const cluster::JobStatus& job : s.jobs) out += fmt::format("  {}: {}\n", job.id, job_line(job));
  return out;
}

// "0-3", or of several jobs "1: 0-3, 2: 5-8".
std::string layers_text(const NodeStatus& n) {
  std::string out;
  for (const cluster::NodeJobStatus& job : n.jobs) {
    if (!job.begin || !job.end) continue;
    if (!out.empty()) out += ", ";
    if (n.jobs.size() > 1) out += fmt::format("{}: ", job.job);
    out += fmt::format("{}-{}", *job.begin, *job.end - 1);
  }
  return out.empty() ? "-" : out;
}

// What it does: how far it is with loading, else its part.
std::string role_text(const NodeStatus& n) {
  for (const cluster::NodeJobStatus& job : n.jobs)
    if (job.load_total > 0 && (job.phase == "loading" || job.phase == "preparing"))
      return fmt::format("{} {:.0f} %", job.phase,
                         100.0 * static_cast<double>(job.load_done) / static_cast<double>(job.load_total));
  const std::string role = n.role();
  return role.empty() ? "-" : role;
}

// How much of the time its stages compute; and where others use the machine as much, that too.
std::string busy_text(const NodeStatus& n) {
  if (n.state != "up" && n.state != "suspect") return "-";
  std::string out = fmt::format("{:.0f} %", 100 * n.busy);
  if (n.machine.busy > n.busy + 0.25) out += fmt::format(" (machine {:.0f} %)", 100 * n.machine.busy);
  return out;
}

std::vector<std::string> cells(const NodeStatus& n) {
  return {n.name,
          n.state,
          role_text(n),
          fmt::format("{} x {}", n.threads, n.target),
          n.ram_free_bytes > 0
              ? fmt::format("{} of {}", format_bytes(n.ram_free_bytes), format_bytes(n.ram_bytes))
              : format_bytes(n.ram_bytes),
          n.disk_bytes_per_s > 0 ? rate_text(n.disk_bytes_per_s) : "-",
          layers_text(n),
          n.has_stage() ? fmt::format("{:.1f}", n.rows_per_s) : "-",
          busy_text(n),
          n.link_bandwidth > 0
              ? fmt::format("{}, {}", seconds_text(n.link_rtt_s), rate_text(n.link_bandwidth))
              : "-",
          n.program.empty() ? "-" : n.program};
}

// Which go first where a terminal is narrow: machines rarely change.
constexpr size_t kVersion = 10, kDisk = 5, kCpu = 3, kRam = 4, kLink = 9, kBusy = 8;
constexpr size_t kLeaveOut[] = {kVersion, kDisk, kCpu, kLink, kBusy, kRam};
constexpr size_t kGap = 2;

std::string table(const ClusterStatus& s, size_t columns) {
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "STATE", "ROLE", "CPU", "RAM FREE", "DISK", "LAYERS", "TOK/S", "BUSY", "LINK", "VERSION"}};
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
  std::vector<std::string> names, words;
  for (const cluster::JobStatus& job : s.jobs) {
    if (!job.serving || !job.change.empty()) return {};
    if (!job.words.empty()) words.push_back(job.words);
  }
  for (const NodeStatus& node : s.nodes)
    if (!s.jobs.empty() && node.state == "up" && node.role() == "idle") names.push_back(node.name);
  if (names.empty()) return {};
  // No strategy makes room.
  const std::string why = fmt::format("{}", fmt::join(words, "; "));
  const bool no_room = why.find(cluster::kRoomForNothing) != std::string::npos;
  const std::string advice = no_room ? ""
                                     : fmt::format(" ('serve --strategy {}' gives every node a part)",
                                                   cluster::first_strategy(cluster::NodeChoice::kAll).name);
  return fmt::format("idle: {}: {} without{}{}{}\n", fmt::join(names, ", "),
                     s.jobs.size() == 1 ? "the plan does" : "the plans do", advice, why.empty() ? "" : ": ",
                     why);
}

// Who leads, and what happens when that machine is gone.
std::string lead_line(const ClusterStatus& s) {
  if (!s.lead) return {};
  std::vector<std::string> words;
  bool ready = false;
  for (const cluster::LeadStatus::Seat& seat : s.lead->seats) {
    ready = ready || (seat.role == "standby" && seat.journal);
    if (seat.role == "leads") words.push_back(seat.name + " leads");
    if (seat.role == "witness") words.push_back("witness " + seat.name);
    if (seat.role == "standby")
      words.push_back(fmt::format("standby {} {}", seat.name,
                                  seat.journal ? "has the journal" : "has not all of the journal"));
  }
  for (const std::string& name : s.lead->missing)
    words.push_back(
        fmt::format("{} has never joined ('butterfly token new' here, then 'butterfly join' there)", name));
  if (!s.lead->missing.empty())
    words.push_back("nobody takes over before all have");
  else if (s.lead->seats.empty())
    words.push_back("who may lead is being agreed on");
  else if (!ready)
    words.push_back("nobody could take over now");
  else
    words.push_back(s.lead->by_majority ? "takes over by itself"
                                        : "takes over when a person says 'butterfly promote' there");
  return fmt::format("lead: {}\n", fmt::join(words, "; "));
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
    for (const cluster::NodeJobStatus& job : node.jobs)
      if (job.loss)
        out += fmt::format("  {}{}: {}\n", node.name,
                           s.jobs.size() > 1 ? fmt::format(", job {}", job.job) : "", job.loss->words);
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
  std::string out = first_line(status) + job_lines(status) + table(status, columns);
  if (!status.caution.empty()) out += fmt::format("caution: {}\n", status.caution);
  out += lead_line(status) + idle(status) + unreachable(status) + refused(status) + losses(status);
  if (const std::string failure = status.last_failure(); !failure.empty())
    out += fmt::format("last failure: {}\n", failure);
  for (const cluster::JobStatus& job : status.jobs)
    if (job.rows_again > 0)
      out += fmt::format("{}: {} rows were computed again after changes, through {} layers on average\n",
                         job.model, job.rows_again,
                         (job.row_layers_again + job.rows_again / 2) / job.rows_again);
  for (const cluster::JobStatus& job : status.jobs)
    if (job.moves_sent + job.moves_computed > 0)
      out += fmt::format(
          "{}: caches of layers that moved were sent after {} changes ({}) and computed after {}\n",
          job.model, job.moves_sent, format_bytes(job.moved_bytes), job.moves_computed);
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
