// Which firewall this machine has, and how it lets a port through.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace butterfly::cli {

// A command to paste. Where none of those that are known is at work, what else to look at. `root`: of the
// file system, for tests.
std::string firewall_command(uint16_t port, const std::filesystem::path& root = "/");

// For a machine that this one knows nothing of.
std::string firewall_commands(uint16_t port);

// "10.0.0.5:7741" -> 7741; 0: there is none.
uint16_t port_of(const std::string& address);

}  // namespace butterfly::cli
