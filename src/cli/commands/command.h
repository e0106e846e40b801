// What a command of the program is.
#pragma once
#include <functional>
#include <string_view>

namespace CLI {
class App;
}  // namespace CLI

namespace butterfly::cli {

// What a command does once its flags are parsed; returns the exit status. Throws Error for what cannot be
// served.
using CommandBody = std::function<int()>;

struct Command {
  std::string_view name;
  std::string_view help;   // one line, up to 60 characters
  std::string_view group;  // heading in the overview
  bool basic;              // shown by `help`; the others by `help all`

  // Adds the command's flags to `app` and returns what runs after parsing. Flags live in the body (a shared
  // struct).
  CommandBody (*setup)(CLI::App& app);
};

}  // namespace butterfly::cli
