// Where a command's text comes from: -p TEXT, -f FILE, -f - or a pipe.
#pragma once
#include <optional>
#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace butterfly::cli {

struct TextInput {
  std::optional<std::string> prompt = {};
  std::optional<std::string> file = {};
  std::optional<std::string> argument = {};

  // -p, --prompt and -f, --file, one of them. `plain`: the text also as an argument without a flag.
  void add_to(CLI::App& app, bool plain = false);

  // The bytes, unchanged: no newline is added or removed. Reads stdin for "-f -", and without flags when
  // stdin is not a terminal. Throws Error: kInvalidArgument when there is no text to take, kNotFound or kIo
  // from the file, kCancelled after Ctrl-C.
  std::string read() const;

  // Given in a way that people use for messages: by a pipe, or as plain argument.
  bool is_like_a_message() const;
  // Nothing was given, and a person sits at the terminal.
  bool is_left_to_a_person() const;
};

}  // namespace butterfly::cli
