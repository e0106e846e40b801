#include "base/free_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "base/cgroup.h"
#include "base/cpu.h"

namespace butterfly {
namespace {

namespace fs = std::filesystem;

std::optional<uint64_t> number_in(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end != text.data() ? std::optional(value) : std::nullopt;
}

// The number behind `key` in a file of "key number" lines.
std::optional<uint64_t> value_of(const fs::path& file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key)) return number_in(std::string_view(line).substr(key.size()));
  return std::nullopt;
}

// Bytes that the group of this process holds and cannot give back; version 2, then version 1.
std::optional<uint64_t> group_used_bytes(const fs::path& root) {
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const size_t second = line.find(':', line.find(':') + 1);
    if (second == std::string::npos) continue;
    const bool v2 = line.starts_with("0::");
    if (!v2 && line.find("memory") > second) continue;
    const fs::path mount = root / (v2 ? "sys/fs/cgroup" : "sys/fs/cgroup/memory");
    for (const fs::path& folder : {mount / fs::path(line.substr(second + 1)).relative_path(), mount}) {
      const auto used = value_of(folder / (v2 ? "memory.current" : "memory.usage_in_bytes"), "");
      if (!used) continue;
      const uint64_t files =
          value_of(folder / "memory.stat", v2 ? "inactive_file " : "total_inactive_file ").value_or(0);
      return *used - std::min(*used, files);
    }
  }
  return std::nullopt;
}

}  // namespace

uint64_t free_memory_bytes(const fs::path& root) {
  const auto kib = value_of(root / "proc/meminfo", "MemAvailable:");
  const uint64_t available = kib ? *kib << 10 : memory_limit_bytes();
  const auto limit = cgroup_memory_limit(root);
  if (!limit) return available;
  const uint64_t used = std::min(group_used_bytes(root).value_or(0), *limit);
  return std::min(available, *limit - used);
}

}  // namespace butterfly
