#include "cli/models/talk.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <optional>

#include "base/error.h"
#include "base/near_names.h"
#include "base/units.h"
#include "cli/console/answer_text.h"
#include "cli/console/exit_code.h"
#include "cli/console/interrupt.h"
#include "cli/console/line_editor.h"
#include "cli/console/terminal.h"

namespace butterfly::cli {
namespace {

constexpr std::string_view kQuotes = "\"\"\"";
constexpr size_t kFileBytesMax = size_t{64} << 20;

std::string_view stripped(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

class Talk {
 public:
  Talk(Conversation& conversation, TalkOptions options)
      : conversation_(conversation), options_(std::move(options)), editor_(chat_history_file()) {}

  int run();

 private:
  struct Command {
    const char* name;
    const char* argument;
    const char* help;
    void (Talk::*run)(std::string_view argument);
  };
  static const Command kCommands[];

  bool read_message(std::string& message);
  bool obey(const std::string& line);  // false: it is a message
  void answer(const std::function<runtime::Completion(const runtime::TextSink&)>& ask);
  void say(const std::string& text) const { fmt::print(stderr, "{}\n", text); }

  void help(std::string_view);
  void clear(std::string_view);
  void set(std::string_view argument);
  void system(std::string_view text);
  void show(std::string_view);
  void save(std::string_view file);
  void load(std::string_view file);
  void regenerate(std::string_view);
  void leave(std::string_view) { leaving_ = true; }

  Conversation& conversation_;
  TalkOptions options_;
  LineEditor editor_;
  const bool colour_ = use_color(STDOUT_FILENO) && use_color(STDERR_FILENO);
  size_t forgotten_ = 0;
  bool leaving_ = false;
};

const Talk::Command Talk::kCommands[] = {
    {"help", "", "these lines", &Talk::help},
    {"clear", "", "forget the conversation", &Talk::clear},
    {"set", "[NAME VALUE]", "sampling: temp, top-k, top-p, min-p, repeat-penalty, seed, predict", &Talk::set},
    {"system", "[TEXT]", "a message in front of all; without a text: none", &Talk::system},
    {"show", "", "model, settings, how full the context is", &Talk::show},
    {"save", "FILE", "keep the conversation", &Talk::save},
    {"load", "FILE", "go on with one that was kept", &Talk::load},
    {"regen", "", "another answer to the last message", &Talk::regenerate},
    {"bye", "", "leave (also Ctrl-D)", &Talk::leave},
};

void Talk::help(std::string_view) {
  for (const Command& command : kCommands)
    say(fmt::format("  {:<20} {}", fmt::format("/{} {}", command.name, command.argument), command.help));
  say(fmt::format("  {:<20} {}", kQuotes, "begins a message of several lines, and ends it"));
  say("Ctrl-C stops an answer; twice at the prompt it leaves.");
}

void Talk::clear(std::string_view) {
  conversation_.forget_all();
  say("The conversation is forgotten.");
}

// A number that is one from begin to end.
template <typename T>
std::optional<T> number_in(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void Talk::set(std::string_view argument) {
  const size_t blank = argument.find_first_of(" \t");
  const std::string_view name = argument.substr(0, blank);
  const std::string_view text =
      blank == std::string_view::npos ? std::string_view() : stripped(argument.substr(blank));
  model::SamplerSettings& s = options_.request.sampling;
  if (name.empty()) {
    say(fmt::format(
        "temp {}  top-k {}  top-p {}  min-p {}  repeat-penalty {}  seed {}  predict {}", s.temperature,
        s.top_k, s.top_p, s.min_p, s.repeat_penalty, s.seed,
        options_.request.tokens_max == SIZE_MAX ? "no bound" : std::to_string(options_.request.tokens_max)));
    return;
  }
  const runtime::RequestOptions before = options_.request;
  bool known = true, read = true;
  const auto take = [&](auto& field) {
    if (const auto value = number_in<std::decay_t<decltype(field)>>(text)) {
      field = *value;
    } else {
      read = false;
    }
  };
  if (name == "temp" || name == "temperature")
    take(s.temperature);
  else if (name == "top-k")
    take(s.top_k);
  else if (name == "top-p")
    take(s.top_p);
  else if (name == "min-p")
    take(s.min_p);
  else if (name == "repeat-penalty")
    take(s.repeat_penalty);
  else if (name == "seed")
    take(s.seed);
  else if (name == "predict")
    take(options_.request.tokens_max);
  else
    known = false;
  if (!known)
    return say(fmt::format(
        "there is no setting '{}': temp, top-k, top-p, min-p, repeat-penalty, seed or predict", name));
  if (!read) return say(fmt::format("/set {}: expected a number, found '{}'", name, text));
  try {
    s.check();
  } catch (const Error& error) {
    options_.request = before;
    return say(error.what());
  }
  say(fmt::format("{} is {}.", name, text));
}

void Talk::system(std::string_view text) {
  conversation_.set_system(std::string(text));
  say(text.empty() ? "No system message." : "The system message is set.");
}

void Talk::show(std::string_view) {
  size_t turns = conversation_.turns().size();
  say(fmt::format("model    {}", options_.model));
  say(fmt::format("turns    {}, {} of {} tokens of context", turns, conversation_.tokens(),
                  conversation_.context()));
  if (!conversation_.system().empty()) say(fmt::format("system   {}", conversation_.system()));
  set({});
}

void Talk::save(std::string_view file) {
  if (file.empty()) return say("/save needs the name of a file: /save talk.json");
  std::ofstream out{std::string(file)};
  out << conversation_.to_json();
  out.close();
  say(out ? fmt::format("Kept in {}.", file)
          : fmt::format("{}: cannot be written; choose another place", file));
}

void Talk::load(std::string_view file) {
  if (file.empty()) return say("/load needs the name of a file that /save wrote");
  std::ifstream in{std::string(file)};
  if (!in) return say(fmt::format("{}: cannot be read; /save FILE keeps a conversation", file));
  std::string text;
  char chunk[1 << 16];
  while (text.size() < kFileBytesMax && (in.read(chunk, sizeof chunk), in.gcount() > 0))
    text.append(chunk, static_cast<size_t>(in.gcount()));
  conversation_.from_json(text);
  say(fmt::format("{} turns.", conversation_.turns().size()));
}

void Talk::regenerate(std::string_view) {
  // The same seed would give the same answer.
  ++options_.request.sampling.seed;
  answer([this](const runtime::TextSink& sink) { return conversation_.ask_again(options_.request, sink); });
}

void Talk::answer(const std::function<runtime::Completion(const runtime::TextSink&)>& ask) {
  const auto write = [](std::string_view text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
      fail(Errc::kIo, "stdout: cannot write");
  };
  // A window that is made smaller while an answer comes wraps the next one better.
  AnswerText shown(
      {.width = is_terminal(STDOUT_FILENO) ? terminal_width(STDOUT_FILENO) : 0, .colour = colour_}, write);
  runtime::Completion done;
  try {
    done = ask([&](std::string_view piece) {
      shown.add(piece);
      return !interrupted();
    });
  } catch (const Error& error) {
    shown.finish();
    if (error.code() != Errc::kInvalidArgument) throw;
    return say(fmt::format("butterfly: {}", error.what()));
  }
  shown.finish();
  write("\n");
  const bool stopped = interrupted();
  clear_interrupt();
  const size_t after_first = done.tokens.empty() ? 0 : done.tokens.size() - 1;
  const double seconds = std::chrono::duration<double>(done.eval_time()).count();
  if (!options_.quiet)
    say(fmt::format("{}[{}{} token{}, {:.1f} tokens/s, first after {}]{}", colour_ ? "\x1b[2m" : "",
                    stopped ? "stopped; " : "", done.tokens.size(), done.tokens.size() == 1 ? "" : "s",
                    seconds > 0 ? static_cast<double>(after_first) / seconds : 0.0,
                    format_duration(done.prompt_time()), colour_ ? "\x1b[0m" : ""));
  if (conversation_.forgotten() != forgotten_) {
    forgotten_ = conversation_.forgotten();
    say(fmt::format("butterfly: note: the context is full, the oldest {} turns are forgotten", forgotten_));
  }
}

// One line, or several between """ and """. False: the person leaves.
bool Talk::read_message(std::string& message) {
  message.clear();
  bool several = false, asked = false;
  for (;;) {
    std::string line;
    switch (editor_.read(several ? "... " : ">>> ", colour_, line)) {
      case LineEditor::Outcome::kEnd:
        say("");
        return false;
      case LineEditor::Outcome::kInterrupted:
        clear_interrupt();
        say("");
        if (asked && !several) return false;
        if (!several) say("Ctrl-C again, Ctrl-D or /bye leaves.");
        asked = !several;
        several = false;
        message.clear();
        continue;
      case LineEditor::Outcome::kLine:
        break;
    }
    asked = false;
    const std::string_view text = stripped(line);
    if (!several && text.starts_with(kQuotes)) {
      const std::string_view rest = text.substr(kQuotes.size());
      if (rest.size() >= kQuotes.size() && rest.ends_with(kQuotes)) {
        message = rest.substr(0, rest.size() - kQuotes.size());
        return true;
      }
      several = true;
      message = rest;
      continue;
    }
    if (!several) {
      if (text.empty()) continue;
      message = line;
      return true;
    }
    const bool last = text.ends_with(kQuotes);
    if (!message.empty()) message += '\n';
    message += last ? line.substr(0, line.rfind(kQuotes)) : line;
    if (last) return true;
  }
}

bool Talk::obey(const std::string& line) {
  const std::string_view text = stripped(line);
  if (line.front() != '/' || text.find('\n') != std::string_view::npos) return false;
  const size_t end = std::min(text.find_first_of(" \t"), text.size());
  const std::string_view name = text.substr(1, end - 1);
  // "/etc/hosts says what?" is a message.
  if (name.empty() || !std::ranges::all_of(name, [](char c) { return c >= 'a' && c <= 'z'; })) return false;
  for (const Command& command : kCommands) {
    if (name != command.name) continue;
    try {
      (this->*command.run)(stripped(text.substr(end)));
    } catch (const Error& error) {
      if (error.code() != Errc::kInvalidArgument && error.code() != Errc::kCorrupt) throw;
      say(fmt::format("butterfly: {}", error.what()));
    }
    return true;
  }
  std::string near;
  for (const Command& command : kCommands)
    if (edit_distance(name, command.name) <= near_edits(name) + 1)
      near = fmt::format("; did you mean /{}?", command.name);
  say(fmt::format("there is no /{}{} /help shows all. A message may begin with a blank", name,
                  near.empty() ? "." : near));
  return true;
}

int Talk::run() {
  say(fmt::format("{}. /help shows what can be done, Ctrl-C stops an answer, Ctrl-D leaves.",
                  options_.model));
  std::string message;
  while (!leaving_ && read_message(message)) {
    editor_.remember(message);
    if (message.find_first_not_of(" \t\r\n") == std::string::npos || obey(message)) continue;
    answer([&](const runtime::TextSink& sink) { return conversation_.ask(message, options_.request, sink); });
  }
  return kExitOk;
}

}  // namespace

int talk(Conversation& conversation, TalkOptions options) {
  // A second Ctrl-C, while the first is being heard, does not end the program.
  const KeepInterrupts keep;
  return Talk(conversation, std::move(options)).run();
}

}  // namespace butterfly::cli
