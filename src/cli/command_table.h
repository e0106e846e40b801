// All commands of the program. Adding one: commands/<name>.cc, a declaration in commands/commands.h, one row
// in the table.
#pragma once
#include <functional>
#include <span>
#include <string>
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

// In the order of the overview; rows of one group stand together.
std::span<const Command> command_table();

// The row with this name, or null.
const Command* find_command(std::string_view name);

// The command name most like `typed`, or "" when none is near.
std::string_view nearest_command(std::string_view typed);

}  // namespace butterfly::cli
