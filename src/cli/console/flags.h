// A command's flags, added by plain functions: CLI11's templates are then compiled once, in flags.cc, and not
// in every command (3 to 5 seconds each).
#pragma once
#include <cstddef>
#include <initializer_list>
#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace butterfly::cli {

// One flag or positional argument, to say more of. Belongs to the App; free to copy.
class Flag {
 public:
  explicit Flag(CLI::Option* option) : option_(option) {}
  Flag& type_name(const std::string& name);  // what help shows for the value
  Flag& group(const std::string& heading);   // where help shows it
  Flag& required();
  Flag& show_default();  // what the variable holds now, in help
  Flag& one_of(std::initializer_list<const char*> values);
  Flag& range(size_t min, size_t max);
  Flag& separator(char c);  // one argument may hold several values
  Flag& excludes(const Flag& other);
  bool given() const;  // after the parse: on the command line, or in the environment
  Flag& repeatable();  // takes one value each time, keeps all; without it the last one counts

 private:
  CLI::Option* option_;
};

// Names are CLI11's: "-m,--model", or "FILE" for a positional argument. `value` must outlive the parse. Made
// for the types listed at the end of flags.cc.
template <typename T>
Flag add_option(CLI::App& app, const std::string& names, T& value, const std::string& words);

Flag add_flag(CLI::App& app, const std::string& names, bool& value, const std::string& words);

// Shown below the flags in help.
void set_footer(CLI::App& app, const std::string& text);

}  // namespace butterfly::cli
