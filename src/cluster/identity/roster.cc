#include "cluster/identity/roster.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "base/hex.h"
#include "cluster/identity/certificate.h"

namespace butterfly::cluster {
namespace {

constexpr const char* kRosterFile = "roster";
constexpr std::string_view kRosterFirstLine = "butterfly roster 1";

}  // namespace

Roster::Roster(StateFolder folder) : folder_(std::move(folder)), rows_(read()) {}

std::vector<RosterRow> Roster::rows() const {
  const std::lock_guard lock(mutex_);
  std::vector<RosterRow> out;
  for (const auto& [key, row] : rows_) out.push_back(row);
  return out;
}

bool Roster::is_removed(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = rows_.find(key);
  return found != rows_.end() && found->second.removed;
}

std::optional<RosterRow> Roster::find(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = rows_.find(key);
  return found == rows_.end() ? std::nullopt : std::optional<RosterRow>(found->second);
}

Status Roster::admit(const NodeId& node) {
  const StateFolder::Lock on_disk(folder_);
  const std::lock_guard lock(mutex_);
  Rows rows = read();
  if (const auto found = rows.find(node.key); found != rows.end() && found->second.removed)
    return {Errc::kInvalidArgument,
            fmt::format("node {} ({:.12}) was removed from this cluster", node.name, node.key)};
  for (const auto& [key, row] : rows)
    if (!row.removed && row.node.name == node.name && key != node.key)
      return {
          Errc::kInvalidArgument,
          fmt::format("another node is called {} (key {:.12}); choose another name, or remove that one first",
                      node.name, key)};
  if (rows.size() >= kRowsMax && !rows.contains(node.key))
    return {Errc::kQueueFull, fmt::format("the cluster's list is full: {} nodes", kRowsMax)};
  rows[node.key] = {node, false};
  write(rows);
  return {};
}

Result<NodeId> Roster::remove(std::string_view key_or_name) {
  const StateFolder::Lock on_disk(folder_);
  const std::lock_guard lock(mutex_);
  Rows rows = read();
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const auto& entry) {
    return entry.first == key_or_name || (!entry.second.removed && entry.second.node.name == key_or_name);
  });
  if (found == rows.end()) return {Errc::kNotFound, fmt::format("no node is called {}", key_or_name)};
  found->second.removed = true;
  const NodeId node = found->second.node;
  write(rows);
  return node;
}

Status Roster::add_removed(const NodeId& node) {
  if (!is_hex(node.key, 64) || !why_not_node_name(node.name).empty())
    return {Errc::kInvalidArgument, "[roster] not a node"};
  const StateFolder::Lock on_disk(folder_);
  const std::lock_guard lock(mutex_);
  Rows rows = read();
  const auto found = rows.find(node.key);
  if (found != rows.end() && found->second.removed) {
    rows_ = std::move(rows);
    return {};
  }
  if (found == rows.end() && rows.size() >= kRowsMax)
    return {Errc::kQueueFull, fmt::format("the cluster's list is full: {} nodes", kRowsMax)};
  rows[node.key] = {node, true};
  write(rows);
  return {};
}

std::vector<NodeId> Roster::refresh() {
  const std::lock_guard lock(mutex_);
  Rows rows = read();
  std::vector<NodeId> news;
  for (const auto& [key, row] : rows) {
    const auto before = rows_.find(key);
    if (row.removed && (before == rows_.end() || !before->second.removed)) news.push_back(row.node);
  }
  rows_ = std::move(rows);
  return news;
}

Roster::Rows Roster::read() const {
  if (!folder_.has(kRosterFile)) return {};
  std::istringstream in(folder_.read(kRosterFile));
  const std::string place = (folder_.path() / kRosterFile).string();
  std::string line;
  if (!std::getline(in, line) || line != kRosterFirstLine)
    fail(Errc::kCorrupt, "{}:1: expected '{}'", place, kRosterFirstLine);
  Rows rows;
  for (size_t number = 2; std::getline(in, line); ++number) {
    std::istringstream words(line);
    std::string state, key, name, more;
    words >> state >> key >> name;
    if ((state != "member" && state != "removed") || !is_hex(key, 64) || !why_not_node_name(name).empty() ||
        words >> more)
      fail(Errc::kCorrupt, "{}:{}: expected 'member' or 'removed', a key and a name", place, number);
    rows[key] = {{key, name}, state == "removed"};
  }
  return rows;
}

void Roster::write(const Rows& rows) {
  std::string text(kRosterFirstLine);
  text += '\n';
  for (const auto& [key, row] : rows)
    text += fmt::format("{} {} {}\n", row.removed ? "removed" : "member", key, row.node.name);
  folder_.write(kRosterFile, text);
  rows_ = rows;
}

}  // namespace butterfly::cluster
