// `butterfly launch`: starts a coding agent or another tool against a running server.
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/json_text.h"
#include "cli/commands/commands.h"
#include "cli/console/exit_code.h"
#include "cli/console/options.h"
#include "server/management_client.h"
#include "server/settings/settings.h"

extern char** environ;

namespace butterfly::cli {
namespace {

using Json = nlohmann::ordered_json;

// What a tool is to talk to.
struct Target {
  std::string url;    // "http://127.0.0.1:8080"
  std::string model;  // name
  std::string key;    // "butterfly" where none is asked for: tools insist on one
  size_t context = 0;
};

struct Start {
  std::vector<std::pair<std::string, std::string>> variables;
  std::vector<std::string> arguments;  // before the user's own
};

Start start_claude(const Target& to) {
  Start start{{{"ANTHROPIC_BASE_URL", to.url},
               {"ANTHROPIC_AUTH_TOKEN", to.key},
               {"ANTHROPIC_MODEL", to.model},
               {"ANTHROPIC_DEFAULT_OPUS_MODEL", to.model},
               {"ANTHROPIC_DEFAULT_SONNET_MODEL", to.model},
               {"ANTHROPIC_DEFAULT_HAIKU_MODEL", to.model},
               {"ANTHROPIC_SMALL_FAST_MODEL", to.model},
               {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"}},
              {}};
  // When it has to shorten the conversation; below 100,000 it learns that from the server's refusal.
  if (to.context > 0)
    start.variables.emplace_back("CLAUDE_CODE_AUTO_COMPACT_WINDOW", std::to_string(to.context));
  return start;
}

Start start_codex(const Target& to) {
  const std::string provider =
      fmt::format(R"(model_providers.butterfly={{name="Butterfly",base_url="{}/v1",wire_api="responses",)"
                  R"(env_key="BUTTERFLY_API_KEY"}})",
                  to.url);
  Start start{{{"BUTTERFLY_API_KEY", to.key}},
              {"-c", "model_provider=butterfly", "-c", provider, "-m", to.model}};
  // It takes models that it does not know for ones with 272,000 tokens.
  if (to.context > 0)
    start.arguments.insert(start.arguments.end(), {"-c", fmt::format("model_context_window={}", to.context)});
  return start;
}

Start start_opencode(const Target& to) {
  Json model = {{"name", to.model}};
  if (to.context > 0) model["limit"] = {{"context", to.context}, {"output", to.context / 4}};
  const Json config = {{"provider",
                        {{"butterfly",
                          {{"npm", "@ai-sdk/openai-compatible"},
                           {"name", "Butterfly"},
                           {"options", {{"baseURL", to.url + "/v1"}, {"apiKey", "{env:BUTTERFLY_API_KEY}"}}},
                           {"models", {{to.model, std::move(model)}}}}}}},
                       {"model", "butterfly/" + to.model}};
  return {{{"BUTTERFLY_API_KEY", to.key}, {"OPENCODE_CONFIG_CONTENT", json_text(config)}}, {}};
}

Start start_qwen(const Target& to) {
  return {{{"OPENAI_BASE_URL", to.url + "/v1"}, {"OPENAI_API_KEY", to.key}, {"OPENAI_MODEL", to.model}}, {}};
}

Start start_aider(const Target& to) {
  return {{{"OPENAI_API_BASE", to.url + "/v1"}, {"OPENAI_API_KEY", to.key}},
          {"--model", "openai/" + to.model}};
}

struct Tool {
  const char* name;     // also of the program
  const char* what;     // interface
  const char* install;  // how to get it
  Start (*start)(const Target& to);
};

constexpr Tool kTools[] = {
    {"claude", "Claude Code, over /v1/messages", "npm install -g @anthropic-ai/claude-code", start_claude},
    {"codex", "Codex, over /v1/responses", "npm install -g @openai/codex", start_codex},
    {"opencode", "OpenCode, over /v1/chat/completions", "npm install -g opencode-ai", start_opencode},
    {"qwen", "Qwen Code, over /v1/chat/completions", "npm install -g @qwen-code/qwen-code", start_qwen},
    {"aider", "Aider, over /v1/chat/completions", "pip install aider-chat", start_aider},
};

std::string tool_names() {
  std::string names;
  for (const Tool& tool : kTools) names += (names.empty() ? "" : ", ") + std::string(tool.name);
  return names;
}

const Tool& tool_of(const std::string& name) {
  for (const Tool& tool : kTools)
    if (name == tool.name) return tool;
  fail(Errc::kInvalidArgument, "launch '{}': expected one of {}", name, tool_names());
}

struct LaunchOptions {
  std::string tool, url, model, socket;
  std::optional<size_t> port, context;
  bool print = false;
  std::vector<std::string> arguments;
};

// The server that was chosen, or the only one that runs.
Target find_target(const LaunchOptions& options) {
  Target to{options.url, options.model, "butterfly", options.context.value_or(0)};
  if (const char* key = ::getenv("BUTTERFLY_API_KEY"); key != nullptr && *key != '\0') to.key = key;
  if (!to.url.empty() && !to.model.empty()) return to;
  std::filesystem::path socket = options.socket;
  if (socket.empty() && options.port) socket = server::default_management_path(*options.port);
  if (socket.empty()) {
    const auto running = server::running_servers();
    if (running.size() != 1)
      fail(Errc::kInvalidArgument,
           "{} of your servers run here: choose one with --port, or name --url and --model{}", running.size(),
           running.empty() ? "; 'butterfly serve -m FILE' starts one" : "");
    socket = running.front();
  }
  const Json state = json_of_text_or_none<Json>(server::ask_server(socket, "GET", "/manage/ps").body);
  if (!state.is_object() || !state.contains("models") || !state["models"].is_array() ||
      state["models"].empty())
    fail(Errc::kIo, "{}: no server answers there", socket.string());
  if (to.url.empty()) to.url = "http://" + state.value("url", "");
  for (const Json& row : state["models"]) {
    if (!to.model.empty() && row.value("name", "") != to.model) continue;
    to.model = row.value("name", "");
    if (!options.context) to.context = row.value("context", size_t{0});
    return to;
  }
  fail(Errc::kNotFound, "the server at {} has no model '{}'", to.url, to.model);
}

// Words that a shell reads as they are.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

void print_start(const Tool& tool, const Start& start) {
  for (const auto& [name, value] : start.variables) fmt::print("export {}={}\n", name, quoted(value));
  fmt::print("{}", tool.name);
  for (const std::string& argument : start.arguments) fmt::print(" {}", quoted(argument));
  fmt::print("\n");
}

int spawn(const Tool& tool, const Start& start, const std::vector<std::string>& more) {
  std::vector<std::string> variables;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view known(*at);
    const bool set = std::any_of(start.variables.begin(), start.variables.end(), [&](const auto& variable) {
      return known.starts_with(variable.first + "=");
    });
    if (!set) variables.emplace_back(known);
  }
  for (const auto& [name, value] : start.variables) variables.push_back(name + "=" + value);
  std::vector<std::string> words = {tool.name};
  words.insert(words.end(), start.arguments.begin(), start.arguments.end());
  words.insert(words.end(), more.begin(), more.end());
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> list;
    for (std::string& text : texts) list.push_back(text.data());
    list.push_back(nullptr);
    return list;
  };
  pid_t child = 0;
  const int error =
      ::posix_spawnp(&child, tool.name, nullptr, nullptr, pointers(words).data(), pointers(variables).data());
  if (error == ENOENT) {
    fmt::print(stderr, "{} is not installed: {}\nThen run this again, or set by hand:\n\n", tool.name,
               tool.install);
    std::fflush(stderr);
    print_start(tool, start);
    return kExitFailure;
  }
  if (error != 0) fail(Errc::kIo, "{} cannot be started: {}", tool.name, std::strerror(error));
  // Ctrl-C is the tool's while it runs.
  struct sigaction ignore {
  }, before{};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGINT, &ignore, &before);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  ::sigaction(SIGINT, &before, nullptr);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int launch(const LaunchOptions& options) {
  const Tool& tool = tool_of(options.tool);
  const Target to = find_target(options);
  const Start start = tool.start(to);
  if (options.print) {
    print_start(tool, start);
    return kExitOk;
  }
  fmt::print(stderr, "{}: {} at {}\n", tool.name, to.model, to.url);
  constexpr size_t kContextForAgents = 16384;
  if (to.context > 0 && to.context < kContextForAgents)
    fmt::print(stderr, "{} tokens of context are few for an agent; 'serve -c' gives more\n", to.context);
  return spawn(tool, start, options.arguments);
}

}  // namespace

CommandBody setup_launch(CLI::App& app) {
  auto options = std::make_shared<LaunchOptions>();
  add_option(app, "TOOL", options->tool, "One of " + tool_names()).required();
  add_option(app, "ARGUMENTS", options->arguments, "For the tool; those with dashes behind --");
  add_option(app, "--port", options->port, "The server on this port (default: the only one of yours)")
      .type_name("N");
  add_option(app, "--management", options->socket, "The server with this unix socket").type_name("PATH");
  add_option(app, "--url", options->url, "A server elsewhere: http://HOST:PORT, with --model")
      .type_name("URL");
  add_option(app, "-m,--model", options->model, "Name of the model (default: the server's first)")
      .type_name("NAME");
  add_option(app, "--context", options->context, "Tokens that it holds (default: what a server here says)")
      .type_name("N");
  add_flag(app, "--print", options->print, "Show what would be set and run, for a shell");
  std::string tools = "Tools:\n";
  for (const Tool& tool : kTools)
    tools += fmt::format("  {:<10}{}; {}\n", tool.name, tool.what, tool.install);
  set_footer(app, tools + "The server's key, if it has one, is taken from BUTTERFLY_API_KEY.");
  return [options] { return launch(*options); };
}

}  // namespace butterfly::cli
