#include "cli/help.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>

#include "cli/command_table.h"
#include "cli/console/options.h"

namespace butterfly::cli {
namespace {

constexpr size_t kTextColumn = 28;
constexpr size_t kWidth = 96;

// `left` in its column, then `text` wrapped beside it; a long `left` gets a line of its own.
std::string entry(const std::string& left, const std::string& text) {
  std::string out = "  " + left;
  size_t column = out.size();
  const auto new_line = [&] {
    out += "\n" + std::string(kTextColumn, ' ');
    column = kTextColumn;
  };
  if (column + 2 > kTextColumn) {
    new_line();
  } else {
    out.resize(kTextColumn, ' ');
    column = kTextColumn;
  }
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const bool first = column == kTextColumn;
    if (!first && column + 1 + word.size() > kWidth) new_line();
    if (column != kTextColumn) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out + "\n";
}

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string left = is_positional ? option->get_name(true) : option->get_name(false, true);
    if (const size_t comma = left.find(','); comma != std::string::npos) left.insert(comma + 1, " ");
    if (!is_positional && option->get_type_size() != 0) {
      left += " " + own_type_name(option->get_type_name());
    }
    // Long flags start in one column, below those that have a short form too.
    if (!is_positional && option->get_snames().empty()) left = "    " + left;

    std::string text = option->get_description();
    if (option->get_required()) text += " (required)";
    if (!option->get_default_str().empty()) text += fmt::format(" (default {})", option->get_default_str());
    if (!option->get_envname().empty()) text += fmt::format(" [{}]", option->get_envname());
    return entry(left, text);
  }

  // Description, usage, arguments, then the groups of flags with the general ones last.
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode) const override {
    std::string arguments;
    std::string usage = "Usage: " + name;
    for (const CLI::Option* option : app->get_options()) {
      if (!option->get_positional()) continue;
      if (option->nonpositional()) {  // an argument that is a flag too is listed once, as the flag
        usage += fmt::format(" -{} {}", option->get_snames().front(), option->get_name(true));
        continue;
      }
      usage += fmt::format(fmt::runtime(option->get_required() ? " {}" : " [{}]"), option->get_name(true));
      arguments += make_option(option, true);
    }
    std::string out = fmt::format("{}\n\n{} [flags]\n", app->get_description(), usage);
    if (!arguments.empty()) out += "\nArguments:\n" + arguments;

    std::vector<std::string> groups = app->get_groups();
    std::stable_partition(groups.begin(), groups.end(),
                          [](const std::string& g) { return g != kGeneralGroup; });
    for (const std::string& group : groups) {
      const auto flags = app->get_options(
          [&](const CLI::Option* option) { return option->get_group() == group && option->nonpositional(); });
      if (flags.empty() || group.empty()) continue;
      out += fmt::format("\n{}:\n", group == "Options" ? "Flags" : group);
      for (const CLI::Option* option : flags) out += make_option(option, false);
    }
    return app->get_footer().empty() ? out : out + "\n" + app->get_footer() + "\n";
  }
};

}  // namespace

std::string own_type_name(const std::string& type) {
  int depth = 0;
  for (size_t i = 0; i < type.size(); ++i) {
    depth += type[i] == '[' ? 1 : type[i] == ']' ? -1 : 0;
    if (type[i] == ':' && depth == 0) return type.substr(0, i);
  }
  return type;
}

void use_our_help(CLI::App& app) { app.formatter(std::make_shared<HelpFormatter>()); }

std::string overview(bool all) {
  std::string out =
      "Butterfly runs language models on ordinary computers: the same tokens, to the bit, everywhere.\n\n"
      "Usage: butterfly <command> [flags]\n";
  std::string_view group;
  size_t hidden = 0;
  for (const Command& command : command_table()) {
    if (!command.basic && !all) {
      ++hidden;
      continue;
    }
    if (command.group != group) {
      group = command.group;
      out += fmt::format("\n{}:\n", group);
    }
    out += fmt::format("  {:<17}{}\n", command.name, command.help);
  }
  out +=
      "\nbutterfly <command> --help shows its flags. Each flag can also be set in the environment:\n"
      "--threads 4 is BUTTERFLY_THREADS=4; a flag beats the environment.\n";
  if (hidden > 0) out += fmt::format("{} more: butterfly help all\n", hidden);
  return out;
}

}  // namespace butterfly::cli
