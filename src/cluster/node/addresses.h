// Where nodes meet: the port of the cluster, and the addresses of this machine that others can use.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace butterfly::cluster {

// For links between nodes (TCP) and for finding clusters on the local network (UDP).
inline constexpr uint16_t kClusterPort = 7741;

// Addresses of interfaces that are up, without loopback and link-local ones: IPv4 first.
std::vector<std::string> own_addresses();

// "10.0.0.5" -> "10.0.0.5:7741", "[::1]" and "::1" -> "[::1]:7741"; with a port it stays as it is.
std::string with_port(const std::string& host, uint16_t port = kClusterPort);

}  // namespace butterfly::cluster
