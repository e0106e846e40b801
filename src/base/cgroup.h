// Limits that Linux control groups (versions 1 and 2) put on this process.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>

namespace butterfly {

// The tightest limit on the way from this process's group up to the root counts: a parent binds its children.
// `root` is the folder that holds proc and sys; tests pass a made-up one.

// CPUs worth of time per second (1.5 = one and a half CPUs), if limited.
std::optional<double> cgroup_cpu_quota(const std::filesystem::path& root = "/");
// Bytes, if limited.
std::optional<uint64_t> cgroup_memory_limit(const std::filesystem::path& root = "/");

}  // namespace butterfly
