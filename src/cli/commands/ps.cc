// `butterfly ps` and `butterfly stop`: running servers of this user, over their unix sockets.
#include <fmt/format.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/json_text.h"
#include "base/units.h"
#include "cli/commands/commands.h"
#include "cli/console/exit_code.h"
#include "cli/console/flags.h"
#include "cli/console/interrupt.h"
#include "cli/console/options.h"
#include "server/management_client.h"
#include "server/settings/settings.h"

namespace butterfly::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ServerChoice {
  std::optional<size_t> port;
  std::string socket;
  bool json = false;

  void add_to(CLI::App& app) {
    add_option(app, "--port", port, "The server on this port (default: every one of yours)").type_name("N");
    add_option(app, "--management", socket, "The server with this unix socket").type_name("PATH");
    add_json_flag(app, json);
  }
  // Where to look. With a choice exactly one place, which need not exist.
  std::vector<std::filesystem::path> places() const {
    if (!socket.empty()) return {socket};
    if (port) return {server::default_management_path(*port)};
    return server::running_servers();
  }
  bool chosen() const { return port.has_value() || !socket.empty(); }
};

// The answer of one server; sockets that a killed server left behind are passed over.
std::optional<Json> state_of(const std::filesystem::path& socket, bool must_exist) {
  try {
    return json_of_text_or_none<Json>(server::ask_server(socket, "GET", "/manage/ps").body);
  } catch (const Error& error) {
    if (must_exist || error.code() != Errc::kNotFound) throw;
    return std::nullopt;
  }
}

void print_server(const Json& state) {
  fmt::print("{}  pid {}  {}  {} open requests\n", state.value("url", ""), state.value("pid", 0),
             state.value("ready", false) ? "ready" : "not ready: " + state.value("reason", ""),
             state.value("open_requests", 0));
  size_t width = 4;
  for (const Json& row : state["models"]) width = std::max(width, row.value("name", "").size());
  fmt::print("  {:<{}}  {:<8}  {:>10}  {:>8}  {:>7}  {:>7}  {:>10}\n", "NAME", width, "STATE", "SIZE",
             "CONTEXT", "RUNNING", "WAITING", "GENERATED");
  for (const Json& row : state["models"])
    fmt::print("  {:<{}}  {:<8}  {:>10}  {:>8}  {:>7}  {:>7}  {:>10}\n", row.value("name", ""), width,
               row.value("state", ""), format_bytes(row.value("bytes", uint64_t{0})), row.value("context", 0),
               row.value("running", 0), row.value("waiting", 0), row.value("generated_tokens", uint64_t{0}));
}

int ps(const ServerChoice& choice) {
  Json all = Json::array();
  for (const auto& socket : choice.places())
    if (auto state = state_of(socket, choice.chosen())) all.push_back(std::move(*state));
  if (choice.json) {
    fmt::print("{}\n", json_text(all, 2));
    return kExitOk;
  }
  if (all.empty()) fmt::print("no server runs; start one with 'butterfly serve -m FILE'\n");
  for (const Json& state : all) print_server(state);
  return kExitOk;
}

bool is_alive(int64_t pid) { return pid > 0 && ::kill(static_cast<pid_t>(pid), 0) == 0; }

int stop(const ServerChoice& choice, size_t wait_seconds) {
  Json stopped = Json::array();
  bool all_ended = true;
  for (const auto& socket : choice.places()) {
    const auto state = state_of(socket, choice.chosen());
    if (!state) continue;
    server::ask_server(socket, "POST", "/manage/stop", "{}");
    const int64_t pid = state->value("pid", int64_t{0});
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(wait_seconds);
    while (is_alive(pid) && std::chrono::steady_clock::now() < deadline && !interrupted())
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const bool ended = !is_alive(pid);
    all_ended = all_ended && ended;
    stopped.push_back({{"url", state->value("url", "")}, {"pid", pid}, {"ended", ended}});
  }
  if (stopped.empty()) fail(Errc::kNotFound, "no server runs");
  if (choice.json) {
    fmt::print("{}\n", json_text(stopped, 2));
  } else {
    for (const Json& row : stopped)
      fmt::print("{} (pid {}) {}\n", row.value("url", ""), row.value("pid", 0),
                 row.value("ended", false) ? "ended" : "is still draining");
  }
  return all_ended ? kExitOk : kExitFailure;
}

}  // namespace

CommandBody setup_ps(CLI::App& app) {
  auto choice = std::make_shared<ServerChoice>();
  choice->add_to(app);
  return [choice] { return ps(*choice); };
}

CommandBody setup_stop(CLI::App& app) {
  auto choice = std::make_shared<ServerChoice>();
  auto wait = std::make_shared<size_t>(70);
  choice->add_to(app);
  add_option(app, "--wait", *wait, "Seconds to wait until it has ended").type_name("SECONDS").show_default();
  return [choice, wait] { return stop(*choice, *wait); };
}

}  // namespace butterfly::cli
