// All commands of the program. Adding one: commands/<name>.cc, a declaration in commands/commands.h, one row
// in the table.
#pragma once
#include <span>
#include <string_view>

#include "cli/commands/command.h"

namespace butterfly::cli {

// In the order of the overview; rows of one group stand together.
std::span<const Command> command_table();

// The row with this name, or null.
const Command* find_command(std::string_view name);

// The command name most like `typed`, or "" when none is near.
std::string_view nearest_command(std::string_view typed);

}  // namespace butterfly::cli
