// The text of `help` and of every command's --help.
#pragma once
#include <memory>
#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace butterfly::cli {

// The list of commands, one line each: the basic ones, or all.
std::string overview(bool all);

// Without the library's checks, which it puts behind a colon, "N:INT in [1 - 9]": our descriptions say what
// is allowed. A colon in brackets is ours: "FILE[:SCALE]".
std::string own_type_name(const std::string& type);

// Makes `app` print its help in our form: usage, flags with environment variable and default, wrapped to 96
// columns.
void use_our_help(CLI::App& app);

}  // namespace butterfly::cli
