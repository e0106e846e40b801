#include "base/cgroup.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_text.h"

namespace butterfly {
namespace {

namespace fs = std::filesystem;

// Nothing for "max", "-1", an empty text or a number that does not fit.
std::optional<uint64_t> parse_limit(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

// A line of /proc/self/cgroup: "4:cpu,cpuacct:/user.slice", or "0::/user.slice" in version 2.
struct Membership {
  std::string controllers;
  std::string path;
  bool has(std::string_view controller) const {
    std::istringstream list(controllers);
    for (std::string name; std::getline(list, name, ',');)
      if (name == controller) return true;
    return false;
  }
};

std::vector<Membership> memberships(const fs::path& root) {
  std::vector<Membership> found;
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    found.push_back({line.substr(first + 1, second - first - 1), line.substr(second + 1)});
  }
  return found;
}

// Folders from the group itself up to the root of its hierarchy. Inside a container the path may be the
// host's, so some of them do not exist; the root does.
std::vector<fs::path> folders(const fs::path& hierarchy, const std::string& path) {
  std::vector<fs::path> found;
  for (fs::path at = fs::path(path).relative_path(); !at.empty(); at = at.parent_path())
    found.push_back(hierarchy / at);
  found.push_back(hierarchy);
  return found;
}

// Calls fn(folder, is_v2) for every folder that may limit `controller`.
template <typename Fn>
void for_each_folder(const fs::path& root, std::string_view controller, Fn fn) {
  const fs::path mount = root / "sys/fs/cgroup";
  for (const Membership& member : memberships(root)) {
    if (member.controllers.empty()) {
      for (const fs::path& hierarchy : {mount, mount / "unified"})
        for (const fs::path& folder : folders(hierarchy, member.path)) fn(folder, true);
    } else if (member.has(controller)) {
      for (const fs::path& hierarchy : {mount / member.controllers, mount / controller})
        for (const fs::path& folder : folders(hierarchy, member.path)) fn(folder, false);
    }
  }
}

std::optional<double> quota_of(std::string_view quota, std::string_view period) {
  const auto microseconds = parse_limit(quota);
  const auto every = parse_limit(period);
  if (!microseconds || !every || *microseconds == 0 || *every == 0) return std::nullopt;
  return static_cast<double>(*microseconds) / static_cast<double>(*every);
}

template <typename T>
void keep_less(std::optional<T>& least, std::optional<T> candidate) {
  if (candidate && (!least || *candidate < *least)) least = candidate;
}

// Version 1 says "unlimited" as a number just below 2^63, rounded down to a page.
constexpr uint64_t kUnlimitedV1 = uint64_t{1} << 62;

}  // namespace

std::optional<double> cgroup_cpu_quota(const fs::path& root) {
  std::optional<double> least;
  for_each_folder(root, "cpu", [&](const fs::path& folder, bool v2) {
    if (v2) {
      const std::string line = first_line_of(folder / "cpu.max");  // "150000 100000" or "max 100000"
      const size_t space = line.find(' ');
      if (space != std::string::npos)
        keep_less(least, quota_of(std::string_view(line).substr(0, space),
                                  std::string_view(line).substr(space + 1)));
    } else {
      keep_less(least, quota_of(first_line_of(folder / "cpu.cfs_quota_us"),
                                first_line_of(folder / "cpu.cfs_period_us")));
    }
  });
  return least;
}

std::optional<uint64_t> cgroup_memory_limit(const fs::path& root) {
  std::optional<uint64_t> least;
  for_each_folder(root, "memory", [&](const fs::path& folder, bool v2) {
    const auto limit = parse_limit(first_line_of(folder / (v2 ? "memory.max" : "memory.limit_in_bytes")));
    if (limit && *limit < kUnlimitedV1) keep_less(least, limit);
  });
  return least;
}

}  // namespace butterfly
