#include "cli/manual.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>

#include "base/check.h"
#include "base/error.h"
#include "cli/command_table.h"
#include "cli/console/options.h"
#include "cli/console/version.h"
#include "cli/help.h"

namespace butterfly::cli {
namespace {

struct FlagFacts {
  std::string short_name, long_name;  // without dashes; one of them may be empty
  std::string type;                   // empty: takes no value
  std::string help;
};

struct CommandFacts {
  std::string name, help, usage;
  std::vector<FlagFacts> flags;
  std::string footer;
};

CommandFacts facts_of(const Command& command) {
  CLI::App app(std::string(command.help), fmt::format("butterfly {}", command.name));
  command.setup(app);
  GeneralOptions general;
  general.add_to(app);
  add_environment_names(app);
  CommandFacts facts{std::string(command.name), std::string(command.help), {}, {}, app.get_footer()};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional() && !option->nonpositional()) {
      facts.usage +=
          fmt::format(fmt::runtime(option->get_required() ? " {}" : " [{}]"), option->get_name(true));
      continue;
    }
    FlagFacts flag;
    if (!option->get_snames().empty()) flag.short_name = option->get_snames().front();
    if (!option->get_lnames().empty()) flag.long_name = option->get_lnames().front();
    if (option->get_type_size() != 0) flag.type = own_type_name(option->get_type_name());
    flag.help = option->get_description();
    if (option->get_required()) flag.help += " (required)";
    if (!option->get_default_str().empty())
      flag.help += fmt::format(" (default {})", option->get_default_str());
    if (!option->get_envname().empty()) flag.help += fmt::format(" [{}]", option->get_envname());
    facts.flags.push_back(std::move(flag));
  }
  return facts;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

std::string bash_script() {
  std::string out =
      "# Completion of butterfly for bash, made by 'butterfly completion bash'.\n"
      "_butterfly() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} flags=\n"
      "  if ((COMP_CWORD == 1)); then\n"
      "    COMPREPLY=($(compgen -W \"help";
  std::string cases;
  for (const Command& command : command_table()) {
    out += fmt::format(" {}", command.name);
    cases += fmt::format("    {}) flags=\"", command.name);
    for (const FlagFacts& flag : facts_of(command).flags)
      if (!flag.long_name.empty()) cases += fmt::format("--{} ", flag.long_name);
    cases += "\" ;;\n";
  }
  return out +
         " --version\" -- \"$word\"))\n"
         "    return\n"
         "  fi\n"
         "  case ${COMP_WORDS[1]} in\n" +
         cases +
         "  esac\n"
         "  if [[ $word == -* ]]; then COMPREPLY=($(compgen -W \"$flags\" -- \"$word\")); fi\n"
         "}\n"
         "complete -o default -F _butterfly butterfly\n";
}

std::string zsh_script() {
  const auto text = [](const std::string& words) {
    return replaced(replaced(replaced(words, "'", "'\\''"), "[", "\\["), "]", "\\]");
  };
  std::string commands, cases;
  for (const Command& command : command_table()) {
    commands +=
        fmt::format("    '{}:{}'\n", command.name, replaced(text(std::string(command.help)), ":", "\\:"));
    cases += fmt::format("    {})\n      _arguments '*:file:_files'", command.name);
    for (const FlagFacts& flag : facts_of(command).flags) {
      if (flag.long_name.empty()) continue;
      cases += fmt::format(
          " \\\n        '*--{}[{}]{}'", flag.long_name, replaced(text(flag.help), ":", "\\:"),
          flag.type.empty() ? "" : fmt::format(":{}:_files", replaced(text(flag.type), ":", "\\:")));
    }
    cases += "\n      ;;\n";
  }
  return "#compdef butterfly\n"
         "# Completion of butterfly for zsh, made by 'butterfly completion zsh'.\n"
         "_butterfly() {\n"
         "  local -a commands=(\n" +
         commands +
         "  )\n"
         "  if ((CURRENT == 2)); then\n"
         "    _describe command commands\n"
         "    return\n"
         "  fi\n"
         "  local name=$words[2]\n"
         "  shift words\n"
         "  ((CURRENT--))\n"
         "  case $name in\n" +
         cases +
         "  esac\n"
         "}\n"
         "_butterfly \"$@\"\n";
}

std::string fish_script() {
  const auto text = [](const std::string& words) {
    return replaced(replaced(words, "\\", "\\\\"), "'", "\\'");
  };
  std::string out = "# Completion of butterfly for fish, made by 'butterfly completion fish'.\n";
  for (const Command& command : command_table()) {
    out += fmt::format("complete -c butterfly -n __fish_use_subcommand -a {} -d '{}'\n", command.name,
                       text(std::string(command.help)));
    for (const FlagFacts& flag : facts_of(command).flags) {
      out += fmt::format("complete -c butterfly -n '__fish_seen_subcommand_from {}'", command.name);
      if (!flag.long_name.empty()) out += fmt::format(" -l {}", flag.long_name);
      if (flag.short_name.size() == 1) out += fmt::format(" -s {}", flag.short_name);
      out += fmt::format("{} -d '{}'\n", flag.type.empty() ? "" : " -r", text(flag.help));
    }
  }
  return out;
}

// roff: minus signs that can be copied, no line that would be a request.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n'))
      out += fmt::format("\\&{}", c);
    else
      out += c;
  }
  return out;
}

std::string man_head(const std::string& name, std::string_view help) {
  std::string title = name;
  for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return fmt::format(".TH {} 1 \"\" \"butterfly {}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n", roff(title),
                     build_info().version, roff(name), roff(help));
}

constexpr std::string_view kSeeAlso =
    ".SH EXIT STATUS\n0 done, 1 it did not work, 2 bad input, 130 stopped by Ctrl\\-C.\n";

}  // namespace

std::string completion_script(std::string_view shell) {
  if (shell == "bash") return bash_script();
  if (shell == "zsh") return zsh_script();
  if (shell == "fish") return fish_script();
  fail(Errc::kInvalidArgument, "completion: '{}' is no shell that is known here: bash, zsh or fish", shell);
}

std::string man_page() {
  std::string out =
      man_head("butterfly", "language models on ordinary computers") +
      ".SH SYNOPSIS\n.B butterfly\n.I command\n.RI [ flags ]\n.SH DESCRIPTION\n"
      "Runs, serves and trains language models on one machine or on several that work as one. The tokens of "
      "a "
      "request depend only on the model file, the prompt, the settings and the seed.\n.SH COMMANDS\n";
  for (const Command& command : command_table())
    out += fmt::format(".TP\n.BR butterfly\\-{} (1)\n{}\n", roff(command.name), roff(command.help));
  out +=
      ".SH ENVIRONMENT\nEach flag can be set in the environment: \\-\\-threads 4 is BUTTERFLY_THREADS=4. A "
      "flag beats the "
      "environment.\n";
  return out + std::string(kSeeAlso);
}

std::string man_page(std::string_view name) {
  const Command* command = find_command(name);
  BF_CHECK(command != nullptr) << name;
  const CommandFacts facts = facts_of(*command);
  std::string out =
      man_head(fmt::format("butterfly-{}", name), facts.help) +
      fmt::format(".SH SYNOPSIS\n.B butterfly {}\n{} [flags]\n.SH OPTIONS\n", roff(name), roff(facts.usage));
  for (const FlagFacts& flag : facts.flags) {
    std::string names;
    if (!flag.short_name.empty()) names = "-" + flag.short_name;
    if (!flag.long_name.empty()) names += (names.empty() ? "--" : ", --") + flag.long_name;
    out += fmt::format(".TP\n.B {}{}\n{}\n", roff(names), flag.type.empty() ? "" : " " + roff(flag.type),
                       roff(flag.help));
  }
  if (!facts.footer.empty()) out += fmt::format(".SH NOTES\n{}\n", roff(facts.footer));
  return out + std::string(kSeeAlso) + ".SH SEE ALSO\n.BR butterfly (1)\n";
}

void write_man_pages(const std::filesystem::path& folder) {
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream out(folder / name);
    out << text;
    out.close();
    if (!out) fail(Errc::kIo, "{}: cannot be written", (folder / name).string());
  };
  write("butterfly.1", man_page());
  for (const Command& command : command_table())
    write(fmt::format("butterfly-{}.1", command.name), man_page(command.name));
}

}  // namespace butterfly::cli
