// Talks to a running server over its unix socket: what `ps` and `stop` do.
#pragma once
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace butterfly::server {

struct ManagementAnswer {
  int status = 0;
  std::string body;
};

// Sends one request and reads the whole answer. Blocks, at most `timeout` for each step. Throws Error:
// kNotFound when no server listens there, kIo, kTimeout; kInvalidArgument for a socket that belongs to
// another user.
ManagementAnswer ask_server(const std::filesystem::path& socket, const std::string& method,
                            const std::string& path, const std::string& body = {},
                            std::chrono::milliseconds timeout = std::chrono::seconds(10));

// Sockets of running servers of this user, in the default place.
std::vector<std::filesystem::path> running_servers();

}  // namespace butterfly::server
