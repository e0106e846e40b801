#include "cli/program.h"

#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

#include "base/error.h"
#include "base/near_names.h"
#include "cli/command_table.h"
#include "cli/console/exit_code.h"
#include "cli/console/interrupt.h"
#include "cli/console/options.h"
#include "cli/console/terminal.h"
#include "cli/console/version.h"
#include "cli/help.h"
#include "cli/manual.h"

namespace butterfly::cli {
namespace {

// "butterfly: error: …" on one line, and a second line with what to try, if there is something.
void print_error(std::string text, std::string_view hint = {}) {
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  while (!text.empty() && text.back() == ' ') text.pop_back();
  const bool color = use_color(STDERR_FILENO);
  fmt::print(stderr, "butterfly: {}error:{} {}\n", color ? "\033[31m" : "", color ? "\033[0m" : "", text);
  if (!hint.empty()) fmt::print(stderr, "butterfly: {}\n", hint);
}

int unknown_command(const std::string& name) {
  const std::string_view nearest = nearest_command(name);
  print_error(fmt::format("no command '{}'", name),
              nearest.empty() ? "see 'butterfly help all'" : fmt::format("did you mean '{}'?", nearest));
  return kExitUsage;
}

// The flag of this command that is most like the one that was typed; empty: none is.
std::string nearest_flag(const CLI::App& app, const std::string& typed) {
  std::string nearest;
  size_t best = near_edits(typed) + 1;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      const size_t distance = edit_distance("--" + name, typed);
      if (distance >= best) continue;
      best = distance;
      nearest = "--" + name;
    }
  }
  return nearest;
}

// What is wrong with the arguments, in our words: the library's own put several of them, in turned order,
// behind "The following arguments were not expected".
void print_parse_error(const Command& command, const CLI::App& app, const CLI::ParseError& error) {
  std::string text = error.what(), hint = fmt::format("see 'butterfly {} --help'", command.name);
  // A flag that nobody knows goes before all else: its value may have been taken for something that the error
  // is about.
  const std::vector<std::string> extra = app.remaining();
  const auto flag = std::find_if(extra.begin(), extra.end(),
                                 [](const std::string& word) { return word.size() > 1 && word[0] == '-'; });
  if (flag != extra.end()) {
    const std::string name = flag->substr(0, flag->find('='));
    const std::string nearest = nearest_flag(app, name);
    text = fmt::format("there is no flag '{}'", name);
    if (!nearest.empty()) hint = fmt::format("did you mean '{}'? {}", nearest, hint);
  } else if (!extra.empty() && dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    text = fmt::format("'{}' is one argument too many", extra.front());
  }
  print_error(fmt::format("{}: {}", command.name, text), hint);
}

int run_command(const Command& command, std::vector<std::string> arguments) {
  CLI::App app(std::string(command.help), fmt::format("butterfly {}", command.name));
  use_our_help(app);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  const CommandBody body = command.setup(app);
  GeneralOptions general;
  general.add_to(app);
  add_environment_names(app);

  // llama.cpp's short flags of two letters, which CLI11 would read as two flags.
  std::replace(arguments.begin(), arguments.end(), std::string("-np"), std::string("--parallel"));
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    print_parse_error(command, app, error);
    return kExitUsage;
  }
  general.apply();
  return body();
}

int help(const std::vector<std::string>& topics) {
  if (topics.empty() || topics.front() == "all") {
    fmt::print("{}", overview(!topics.empty()));
    return kExitOk;
  }
  const Command* command = find_command(topics.front());
  return command == nullptr ? unknown_command(topics.front()) : run_command(*command, {"--help"});
}

int dispatch(std::vector<std::string> arguments) {
  if (arguments.empty()) return help({});
  const std::string name = arguments.front();
  arguments.erase(arguments.begin());
  if (name == "help" || name == "--help" || name == "-h") return help(arguments);
  if (name == "--version") {
    fmt::print("{}\n", version_line());
    return kExitOk;
  }
  if (name == "completion" && arguments.size() == 1) {
    fmt::print("{}", completion_script(arguments.front()));
    return kExitOk;
  }
  if (name == "man-pages" && arguments.size() == 1) {
    write_man_pages(arguments.front());
    return kExitOk;
  }
  if (name.starts_with("-")) {
    print_error(fmt::format("flags follow a command, but '{}' comes first", name), "see 'butterfly help'");
    return kExitUsage;
  }
  const Command* command = find_command(name);
  return command == nullptr ? unknown_command(name) : run_command(*command, std::move(arguments));
}

}  // namespace

int run_program(std::vector<std::string> arguments) {
  int status = kExitFailure;
  try {
    status = dispatch(std::move(arguments));
  } catch (const Error& error) {
    if (error.code() != Errc::kCancelled || !interrupted()) print_error(error.what());
    status = exit_code_for(error.code());
  } catch (const std::bad_alloc&) {
    print_error("out of memory", "a smaller context (-c) or a more quantised model needs less");
  } catch (const std::exception& error) {
    print_error(error.what());
  }
  // Output that could not be written is a failure even when all else went well: a full disk must not look
  // like success.
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (!written && status == kExitOk) {
    print_error(fmt::format("cannot write the output: {}", std::strerror(errno)));
    status = kExitFailure;
  }
  if (status == kExitOk && interrupted()) status = kExitInterrupted;
  return status;
}

}  // namespace butterfly::cli
