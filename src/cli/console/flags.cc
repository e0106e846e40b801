#include "cli/console/flags.h"

#include <CLI/App.hpp>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace butterfly::cli {

Flag& Flag::type_name(const std::string& name) {
  option_->type_name(name);
  return *this;
}

Flag& Flag::group(const std::string& heading) {
  option_->group(heading);
  return *this;
}

Flag& Flag::required() {
  option_->required();
  return *this;
}

Flag& Flag::show_default() {
  option_->capture_default_str();
  return *this;
}

Flag& Flag::one_of(std::initializer_list<const char*> values) {
  option_->check(CLI::IsMember(std::vector<std::string>(values.begin(), values.end())));
  return *this;
}

Flag& Flag::range(size_t min, size_t max) {
  option_->check(CLI::Range(min, max));
  return *this;
}

Flag& Flag::separator(char c) {
  option_->delimiter(c);
  return *this;
}

Flag& Flag::excludes(const Flag& other) {
  option_->excludes(other.option_);
  return *this;
}

bool Flag::given() const { return option_->count() > 0; }

Flag& Flag::repeatable() {
  option_->expected(1)->take_all();
  return *this;
}

template <typename T>
Flag add_option(CLI::App& app, const std::string& names, T& value, const std::string& words) {
  return Flag(app.add_option(names, value, words));
}

Flag add_flag(CLI::App& app, const std::string& names, bool& value, const std::string& words) {
  return Flag(app.add_flag(names, value, words));
}

void set_footer(CLI::App& app, const std::string& text) { app.footer(text); }

#define BUTTERFLY_OPTION_TYPE(...) \
  template Flag add_option<__VA_ARGS__>(CLI::App&, const std::string&, __VA_ARGS__&, const std::string&)
BUTTERFLY_OPTION_TYPE(std::string);
BUTTERFLY_OPTION_TYPE(std::optional<std::string>);
BUTTERFLY_OPTION_TYPE(std::vector<std::string>);
BUTTERFLY_OPTION_TYPE(std::filesystem::path);
BUTTERFLY_OPTION_TYPE(bool);
BUTTERFLY_OPTION_TYPE(int32_t);
BUTTERFLY_OPTION_TYPE(int64_t);
BUTTERFLY_OPTION_TYPE(uint32_t);
BUTTERFLY_OPTION_TYPE(uint64_t);
BUTTERFLY_OPTION_TYPE(std::optional<uint32_t>);
BUTTERFLY_OPTION_TYPE(std::optional<uint64_t>);
BUTTERFLY_OPTION_TYPE(std::vector<uint64_t>);
BUTTERFLY_OPTION_TYPE(float);
BUTTERFLY_OPTION_TYPE(double);
BUTTERFLY_OPTION_TYPE(std::optional<double>);
#undef BUTTERFLY_OPTION_TYPE

}  // namespace butterfly::cli
