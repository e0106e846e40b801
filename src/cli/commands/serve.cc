// `butterfly serve`: models behind OpenAI's and Ollama's HTTP interfaces.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "cli/commands/commands.h"
#include "cli/console/exit_code.h"
#include "cli/console/flags.h"
#include "cli/console/interrupt.h"
#include "cli/console/options.h"
#include "cli/console/version.h"
#include "cli/models/model_store.h"
#include "cli/nodes/cluster_serve.h"
#include "cli/nodes/led_serve.h"
#include "cli/nodes/mpi_serve.h"
#include "cli/nodes/node_setup.h"
#include "server/cluster_options.h"
#include "server/context/access.h"
#include "server/server.h"

namespace butterfly::cli {
namespace {

struct ServeOptions {
  server::Settings settings;
  std::string config;
  bool print_config = false;
};

// One flag for each row of the settings.
struct AddFlag {
  CLI::App& app;
  const server::SettingRow& row;
  server::Settings& settings;

  Flag operator()(std::string server::Settings::*field) const {
    return add_option(app, std::string(row.flags), settings.*field, std::string(row.help)).show_default();
  }
  Flag operator()(size_t server::Settings::*field) const {
    return add_option(app, std::string(row.flags), settings.*field, std::string(row.help))
        .show_default()
        .range(row.min, row.max);
  }
  Flag operator()(bool server::Settings::*field) const {
    return add_flag(app, std::string(row.flags), settings.*field, std::string(row.help));
  }
  Flag operator()(std::vector<std::string> server::Settings::*field) const {
    return add_option(app, std::string(row.flags), settings.*field, std::string(row.help)).repeatable();
  }
};

int make_key(const std::string& file) {
  const std::string key = server::make_key_in(file);
  fmt::print("{}\n", key);
  fmt::print(stderr,
             "This key is shown only now; {} keeps its hash. Serve with it:\n  butterfly serve ... "
             "--api-key-file {}\n",
             file, file);
  return kExitOk;
}

// Where it is and how to try it: what somebody who just started it wants to know.
void print_start(const server::Server& served) {
  const std::string key = served.needs_key() ? " -H \"Authorization: Bearer $KEY\"" : "";
  fmt::print(
      stderr,
      "Serving {} at {} (Ctrl-C stops)\nTry it:\n  curl {}/v1/chat/completions{} -H 'Content-Type: "
      "application/json' \\\n"
      "    -d '{{\"model\": \"{}\", \"messages\": [{{\"role\": \"user\", \"content\": \"Hello\"}}]}}'\n",
      served.first_model(), served.url(), served.url(), key, served.first_model());
}

// Says what there is once it is there: a cluster's nodes come by and by, while the server runs already.
class StartLines {
 public:
  explicit StartLines(const server::Server& served) : served_(served) {
    if (!say()) thread_ = std::thread([this] { wait(); });
  }
  ~StartLines() {
    ended_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
  bool say() {
    const std::string why = served_.why_no_cluster();
    if (!why.empty() && why != said_) fmt::print(stderr, "{}\n", why);
    said_ = why;
    if (why.empty()) print_start(served_);
    std::fflush(stderr);
    return why.empty();
  }
  void wait() {
    while (!ended_ && !say()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }

  const server::Server& served_;
  std::string said_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

int serve_here(server::ServerOptions start) {
  server::Server served(std::move(start));
  throw_if_interrupted();
  const StartLines lines(served);
  return served.run(true) ? kExitOk : kExitFailure;
}

int serve(ServeOptions& options) {
  if (options.print_config) {
    fmt::print("{}", server::settings_as_toml(options.settings));
    return kExitOk;
  }
  if (!options.settings.make_key.empty()) return make_key(options.settings.make_key);
  server::ServerOptions start;
  start.settings = options.settings;
  start.version = build_info().version;
  start.resolve_model = resolve_model;
  if (const auto rank = MpiServe::join(start.settings))
    return rank->run([&]() -> int {
      if (!rank->is_first()) return rank->work(start.settings), kExitOk;
      start.cluster = rank->cluster_start(start.settings);
      return serve_here(std::move(start));
    });
  server::check_cluster_settings(start.settings);
  if (start.settings.cluster) start.lead = lead_or_stand_by(start.settings);
  if (end_asked_for()) return kExitOk;
  start.cluster = cluster_start(start.settings, start.lead);
  const LeadWatch watch(start.lead);
  return serve_here(std::move(start));
}

}  // namespace

CommandBody setup_serve(CLI::App& app) {
  auto options = std::make_shared<ServeOptions>();
  std::vector<std::pair<const server::SettingRow*, Flag>> flags;
  for (const server::SettingRow& row : server::setting_table()) {
    Flag flag = std::visit(AddFlag{app, row, options->settings}, row.field);
    if (!row.type.empty()) flag.type_name(std::string(row.type));
    flags.emplace_back(&row, flag.group(std::string(row.group)));
  }
  add_option(app, "--config", options->config, "TOML file with these settings; flags and environment win")
      .type_name("FILE");
  add_flag(app, "--print-config", options->print_config, "Show the settings as such a file, and end");
  return [options, flags, &app] {
    if (!options->config.empty()) {
      std::set<std::string, std::less<>> given;
      for (const auto& [row, flag] : flags)
        if (flag.given()) given.insert(std::string(row->key));
      server::read_settings_file(options->config, given, options->settings);
    }
    if (!log_level_given(app)) set_log_level(LogLevel::kInfo);  // requests are worth a line
    return serve(*options);
  };
}

}  // namespace butterfly::cli
