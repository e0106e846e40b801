// `butterfly load` and `butterfly unload`: the models of a running server, over its unix socket.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "cli/commands/commands.h"
#include "cli/console/exit_code.h"
#include "cli/console/options.h"
#include "cli/models/model_store.h"
#include "server/management_client.h"
#include "server/settings/settings.h"

namespace butterfly::cli {
namespace {

using Json = nlohmann::ordered_json;

// Hashing and reading a large model takes minutes.
constexpr std::chrono::hours kLoadMax{2};

struct LoadOptions {
  std::string model;
  std::optional<size_t> port;
  std::string socket;

  void add_to(CLI::App& app, const char* help) {
    add_option(app, "MODEL", model, help).required();
    add_option(app, "--port", port, "The server on this port (default: the only one of yours)")
        .type_name("N");
    add_option(app, "--management", socket, "The server with this unix socket").type_name("PATH");
  }
  std::filesystem::path place() const {
    if (!socket.empty()) return socket;
    if (port) return server::default_management_path(*port);
    const auto running = server::running_servers();
    if (running.size() != 1)
      fail(Errc::kInvalidArgument, "{} of your servers run here: choose one with --port", running.size());
    return running.front();
  }
};

void ask(const LoadOptions& options, const char* path, const Json& body) {
  const server::ManagementAnswer answer =
      server::ask_server(options.place(), "POST", path, json_text(body), kLoadMax);
  if (answer.status == 200) return;
  const Json said = json_of_text_or_none<Json>(answer.body);
  const bool words = said.is_object() && said.contains("error") && said["error"].is_object();
  fail(answer.status == 404 ? Errc::kNotFound : Errc::kInvalidArgument, "{}",
       words ? said["error"].value("message", "") : "the server refused");
}

// "name=file", "file", or the name of a model that the server has.
int load(const LoadOptions& options) {
  const size_t equals = options.model.find('=');
  const bool named = equals != std::string::npos && options.model.find('/') > equals;
  const std::string file = named ? options.model.substr(equals + 1) : options.model;
  Json body = {{"model", named ? options.model.substr(0, equals) : options.model}};
  std::error_code none;
  if (named || std::filesystem::exists(file, none)) {
    const std::filesystem::path path = std::filesystem::absolute(resolve_model(file));
    if (!named) body["model"] = path.stem().string();
    body["file"] = path.string();
  }
  ask(options, "/manage/load", body);
  fmt::print(stderr, "loaded {}\n", body["model"].get<std::string>());
  return kExitOk;
}

int unload(const LoadOptions& options) {
  ask(options, "/manage/unload", {{"model", options.model}});
  fmt::print(stderr, "unloaded {}\n", options.model);
  return kExitOk;
}

}  // namespace

CommandBody setup_load(CLI::App& app) {
  auto options = std::make_shared<LoadOptions>();
  options->add_to(app, "NAME=FILE, FILE, or the name of a model that the server has");
  return [options] { return load(*options); };
}

CommandBody setup_unload(CLI::App& app) {
  auto options = std::make_shared<LoadOptions>();
  options->add_to(app, "Name of the model");
  return [options] { return unload(*options); };
}

}  // namespace butterfly::cli
