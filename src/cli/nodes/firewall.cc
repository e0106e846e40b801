#include "cli/nodes/firewall.h"

#include <fmt/format.h>

#include <fstream>

#include "cluster/transport/socket.h"

namespace butterfly::cli {
namespace {

std::string ufw(uint16_t port) { return fmt::format("sudo ufw allow {}/tcp", port); }
std::string firewalld(uint16_t port) {
  return fmt::format("sudo firewall-cmd --permanent --add-port={0}/tcp && sudo firewall-cmd --reload", port);
}
std::string nft(uint16_t port) {
  return fmt::format("sudo nft add rule inet filter input tcp dport {} accept", port);
}

bool is_there(const std::filesystem::path& path) {
  std::error_code none;
  return std::filesystem::exists(path, none);
}

bool has_line(const std::filesystem::path& file, const std::string& wanted) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line == wanted) return true;
  return false;
}

}  // namespace

std::string firewall_command(uint16_t port, const std::filesystem::path& root) {
  if (has_line(root / "etc/ufw/ufw.conf", "ENABLED=yes")) return ufw(port);
  if (is_there(root / "run/firewalld") || is_there(root / "run/firewalld.pid")) return firewalld(port);
  for (const char* place : {"usr/sbin/nft", "sbin/nft"})
    if (is_there(root / place)) return nft(port);
  return fmt::format(
      "no firewall of this machine is known (ufw, firewalld, nft): let TCP port {} through the router, the "
      "cloud's rules or the host of this container",
      port);
}

std::string firewall_commands(uint16_t port) {
  return fmt::format("'{}' or '{}'", ufw(port), firewalld(port));
}

uint16_t port_of(const std::string& address) {
  const auto parts = cluster::split_address(address);
  return parts ? static_cast<uint16_t>(std::stoul(parts->port)) : uint16_t{0};
}

}  // namespace butterfly::cli
