#include "cli/console/options.h"

#include <CLI/App.hpp>
#include <cctype>

#include "base/error.h"
#include "base/log.h"
#include "kernels/simd/target.h"

namespace butterfly::cli {

void GeneralOptions::add_to(CLI::App& app) {
  add_option(app, "--log-level", log_level, "debug, info, warn, error or off")
      .type_name("LEVEL")
      .show_default()
      .group(kGeneralGroup);
  add_option(app, "--log-format", log_format, "Log lines as text or json")
      .type_name("FORMAT")
      .show_default()
      .one_of({"text", "json"})
      .group(kGeneralGroup);
  add_option(app, "--target", target, "Instruction set to use, such as AVX2, SSE4 or ref")
      .type_name("NAME")
      .group(kGeneralGroup);
  app.get_help_ptr()->group(kGeneralGroup)->description("This text");
}

void GeneralOptions::apply() const {
  const std::optional<LogLevel> level = log_level_by_name(log_level);
  if (!level)
    fail(Errc::kInvalidArgument, "--log-level is '{}', expected debug, info, warn, error or off", log_level);
  set_log_level(*level);
  set_log_format(log_format == "json" ? LogFormat::kJson : LogFormat::kText);
  if (!target.empty()) kernels::force_target(target);
}

bool log_level_given(const CLI::App& app) {
  const CLI::Option* option = app.get_option_no_throw("--log-level");
  return option != nullptr && option->count() > 0;
}

Flag add_lora_flag(CLI::App& app, std::vector<std::string>& adapters) {
  return add_option(
             app, "--lora", adapters,
             "LoRA adapter, GGUF or PEFT folder, and how strongly it counts (several: repeat the flag)")
      .type_name("FILE[:SCALE]")
      .repeatable();
}

Flag add_threads_flag(CLI::App& app, size_t& threads) {
  return add_option(app, "-t,--threads", threads, "Compute threads (default: every CPU this process may use)")
      .type_name("N")
      .range(1, 1024);
}

Flag add_json_flag(CLI::App& app, bool& json) {
  return add_flag(app, "--json", json, "Print JSON for programs instead of text for people");
}

std::string environment_name(std::string_view long_flag) {
  std::string name = "BUTTERFLY_";
  for (const char c : long_flag) {
    name += c == '-' || c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

void add_environment_names(CLI::App& app) {
  // Flags that mean something else than those of the same name elsewhere: a variable that is set for `serve`
  // must not become the file of `plan`.
  struct OwnName {
    std::string_view command, flag, name;
  };
  constexpr OwnName kOwnNames[] = {{"butterfly init", "cluster", "init-cluster"},
                                   {"butterfly plan", "cluster", "plan-cluster"},
                                   {"butterfly plan", "prompt", "plan-prompt"},
                                   {"butterfly make-corpus", "questions", "corpus-questions"},
                                   {"butterfly train-tokenizer", "special", "special-tokens"}};
  for (CLI::Option* option : app.get_options()) {
    if (option == app.get_help_ptr() || option->get_lnames().empty() || !option->get_envname().empty())
      continue;
    std::string name = option->get_lnames().front();
    for (const OwnName& own : kOwnNames)
      if (own.command == app.get_name() && own.flag == name) name = own.name;
    option->envname(environment_name(name));
  }
}

}  // namespace butterfly::cli
