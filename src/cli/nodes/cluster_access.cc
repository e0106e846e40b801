#include "cli/nodes/cluster_access.h"

#include <fmt/format.h>

#include <charconv>

#include "base/error.h"
#include "base/units.h"
#include "cluster/node/addresses.h"
#include "server/management_client.h"
#include "server/settings/settings.h"

namespace butterfly::cli {

Flag add_state_flag(CLI::App& app, std::string& folder) {
  return add_option(app, "--state", folder,
                    "Folder with keys and certificates (default: ~/.local/state/butterfly)")
      .type_name("FOLDER");
}

std::filesystem::path state_path(const std::string& folder) {
  return folder.empty() ? cluster::StateFolder::default_path() : std::filesystem::path(folder);
}

cluster::StateFolder open_state(const std::string& folder) {
  const std::filesystem::path path = state_path(folder);
  std::error_code none;
  if (!std::filesystem::exists(path, none))
    fail(Errc::kNotFound,
         "{}: this machine belongs to no cluster; 'butterfly init' makes one, 'butterfly join' joins one",
         path.string());
  return cluster::StateFolder::open(path);
}

void CoordinatorChoice::add_to(CLI::App& app) {
  add_option(app, "--port", port, "The server on this port (default: the one that coordinates)")
      .type_name("N");
  add_option(app, "--management", socket, "The server with this unix socket").type_name("PATH");
}

std::optional<std::filesystem::path> CoordinatorChoice::find() const {
  if (!socket.empty()) return socket;
  if (port) return server::default_management_path(*port);
  for (const auto& candidate : server::running_servers()) {
    try {
      if (server::ask_server(candidate, "GET", cluster::kStatusPath).status == 200) return candidate;
    } catch (const Error&) {  // a socket that a killed server left behind, or one that is busy
    }
  }
  return std::nullopt;
}

cluster::ClusterStatus ask_status(const std::filesystem::path& socket) {
  const server::ManagementAnswer answer = server::ask_server(socket, "GET", cluster::kStatusPath);
  if (answer.status != 200) fail(Errc::kNotFound, "{}: this server coordinates no cluster", socket.string());
  return cluster::parse_status(answer.body).or_throw();
}

std::chrono::seconds parse_life(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, text.data() + text.size());
  const int64_t seconds = unit.empty() || unit == "s" ? 1
                          : unit == "m"               ? 60
                          : unit == "h"               ? 3600
                          : unit == "d"               ? 86400
                                                      : 0;
  if (error != std::errc{} || seconds == 0 || value <= 0 || value > 366 * int64_t{86400} / seconds)
    fail(Errc::kInvalidArgument, "'{}': expected a time of up to a year, as in 90s, 15m, 2h or 7d", text);
  return std::chrono::seconds(value * seconds);
}

std::string life_left(std::chrono::seconds left) {
  if (left.count() >= 2 * 86400) return fmt::format("{} d", left.count() / 86400);
  if (left.count() >= 2 * 3600) return fmt::format("{} h", left.count() / 3600);
  if (left.count() >= 120) return fmt::format("{} min", left.count() / 60);
  return fmt::format("{} s", left.count());
}

std::string join_line(const std::string& address, const std::string& token) {
  return fmt::format("butterfly join {} --token {}", address, token);
}

std::string join_address(const std::string& given) {
  if (!given.empty()) return cluster::with_port(given);
  const auto own = cluster::own_addresses();
  return cluster::with_port(own.empty() ? "127.0.0.1" : own.front());
}

}  // namespace butterfly::cli
