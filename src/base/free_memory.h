// Memory that weights and caches could still take on this machine, as of now.
#pragma once
#include <cstdint>
#include <filesystem>

namespace butterfly {

// What the system calls available, or what is left below the control group's limit, whichever is less: pages
// of files that the kernel can drop count as free. Without proc all memory of the machine counts
// as free. `root` holds proc and sys; tests pass a made-up one.
uint64_t free_memory_bytes(const std::filesystem::path& root = "/");

}  // namespace butterfly
