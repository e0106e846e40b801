// What the cluster's commands share: the state folder, and the running coordinator of this machine.
#pragma once
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/console/flags.h"
#include "cluster/identity/state_folder.h"
#include "cluster/member/status.h"

namespace butterfly::cli {

// In the state folder of a node that has joined: the address of its coordinator.
inline constexpr const char* kCoordinatorFile = "coordinator";

// --state FOLDER.
Flag add_state_flag(CLI::App& app, std::string& folder);
std::filesystem::path state_path(const std::string& folder);  // empty: the default one
// Throws Error kNotFound that says how to make or join a cluster.
cluster::StateFolder open_state(const std::string& folder);

// Which server to ask: --port, --management, or the one of this user's that coordinates a cluster.
struct CoordinatorChoice {
  std::optional<size_t> port;
  std::string socket;
  void add_to(CLI::App& app);
  bool given() const { return port.has_value() || !socket.empty(); }

  // The socket of a running coordinator, or nothing. Throws Error kNotFound if one was chosen and is not
  // there.
  std::optional<std::filesystem::path> find() const;
};

// Throws Error: kNotFound when that server coordinates no cluster, else what ask_server() throws.
cluster::ClusterStatus ask_status(const std::filesystem::path& socket);

// "90s", "15m", "2h", "7d", or seconds. Throws Error kInvalidArgument.
std::chrono::seconds parse_life(const std::string& text);
// "58 min", "2 h".
std::string life_left(std::chrono::seconds left);

// "butterfly join 10.0.0.5:7741 --token bf1-…"
std::string join_line(const std::string& address, const std::string& token);
// The address others should use: `given` with a port, or the first of this machine.
std::string join_address(const std::string& given);

}  // namespace butterfly::cli
