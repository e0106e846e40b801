// A table of a TOML file, read key by key: wrong types, values out of range and keys nobody asked for become
// errors with the file's name and line. For .cc files that read TOML; the library's header is heavy.
#pragma once
#include <fmt/format.h>

#include <toml++/toml.h>
#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/units.h"

namespace butterfly {

// Typed access to one table of a file, that remembers which keys were read. Borrows the table. One thread.
// Every fault throws Error kInvalidArgument with file, line, key and what was expected.
class TomlTable {
 public:
  TomlTable(const toml::table& table, std::string_view file) : table_(table), file_(file) {}

  bool has(std::string_view key) const { return table_.contains(key); }
  // Of the key, or of the table that has none.
  size_t line_of(std::string_view key) const {
    const toml::node* node = table_.get(key);
    return (node == nullptr ? table_.source() : node->source()).begin.line;
  }

  std::string string(std::string_view key) {
    const toml::node& node = required(key);
    const auto value = node.value_exact<std::string>();
    if (!value) wrong(node, key, "a string");
    return *value;
  }
  std::string string_or(std::string_view key, std::string otherwise) {
    return has(key) ? string(key) : otherwise;
  }

  // A number of at least `least`; the file's unit is `unit` of ours.
  double number(std::string_view key, double unit, double least) {
    const toml::node& node = required(key);
    const auto value = node.value<double>();
    if (!node.is_number() || !value || !std::isfinite(*value) || *value < least)
      wrong(node, key, fmt::format("a number of at least {}", least));
    return *value * unit;
  }
  double number_or(std::string_view key, double unit, double least, double otherwise) {
    return has(key) ? number(key, unit, least) : otherwise;
  }
  size_t count_or(std::string_view key, size_t least, size_t otherwise) {
    if (!has(key)) return otherwise;
    const toml::node& node = required(key);
    const auto value = node.value_exact<int64_t>();
    if (!value || *value < static_cast<int64_t>(least) || *value > 1'000'000'000)
      wrong(node, key, fmt::format("a whole number from {}", least));
    return static_cast<size_t>(*value);
  }
  // The whole numbers of an array.
  std::vector<size_t> counts(std::string_view key, size_t least) {
    const toml::node& node = required(key);
    const std::string expected = fmt::format("an array of whole numbers from {}", least);
    std::vector<size_t> out;
    if (!node.is_array()) wrong(node, key, expected);
    for (const toml::node& element : *node.as_array()) {
      const auto value = element.value_exact<int64_t>();
      if (!value || *value < static_cast<int64_t>(least) || *value > 1'000'000'000)
        wrong(element, key, expected);
      out.push_back(static_cast<size_t>(*value));
    }
    return out;
  }
  bool flag_or(std::string_view key, bool otherwise) {
    if (!has(key)) return otherwise;
    const toml::node& node = required(key);
    const auto value = node.value_exact<bool>();
    if (!value) wrong(node, key, "true or false");
    return *value;
  }
  // "16 GiB", or a number of bytes.
  uint64_t bytes(std::string_view key) {
    const toml::node& node = required(key);
    if (const auto plain = node.value_exact<int64_t>(); plain && *plain >= 0)
      return static_cast<uint64_t>(*plain);
    const auto text = node.value_exact<std::string>();
    const Result<uint64_t> parsed = parse_bytes(text.value_or(""));
    if (!text || !parsed) wrong(node, key, "bytes, as in \"16 GiB\"");
    return *parsed;
  }
  // The tables of [[key]], in order; none is fine.
  std::vector<TomlTable> tables(std::string_view key) {
    asked_.insert(std::string(key));
    std::vector<TomlTable> out;
    const toml::node* node = table_.get(key);
    if (node == nullptr) return out;
    const toml::array* array = node->as_array();
    if (array == nullptr) wrong(*node, key, fmt::format("tables [[{}]]", key));
    for (const toml::node& element : *array) {
      if (!element.is_table()) wrong(element, key, fmt::format("tables [[{}]]", key));
      out.emplace_back(*element.as_table(), file_);
    }
    return out;
  }
  // The strings of an array.
  std::vector<std::string> strings(std::string_view key) {
    const toml::node& node = required(key);
    std::vector<std::string> out;
    if (!node.is_array()) wrong(node, key, "an array of strings");
    for (const toml::node& element : *node.as_array()) {
      const auto value = element.value_exact<std::string>();
      if (!value) wrong(element, key, "an array of strings");
      out.push_back(*value);
    }
    return out;
  }
  // The tables inside the table `key`, by name.
  std::vector<std::pair<std::string, TomlTable>> named_tables(std::string_view key) {
    asked_.insert(std::string(key));
    std::vector<std::pair<std::string, TomlTable>> out;
    const toml::node* node = table_.get(key);
    if (node == nullptr) return out;
    if (!node->is_table()) wrong(*node, key, fmt::format("tables [{}.NAME]", key));
    for (const auto& [name, inner] : *node->as_table()) {
      if (!inner.is_table()) wrong(inner, key, fmt::format("tables [{}.NAME]", key));
      out.emplace_back(std::string(name.str()), TomlTable(*inner.as_table(), file_));
    }
    return out;
  }

  // A key that is left over is a mistake in writing.
  void no_more_keys() const {
    for (const auto& [key, node] : table_)
      if (!asked_.contains(std::string(key.str())))
        fail(Errc::kInvalidArgument, "{}:{}: key '{}' is not known here", file_, node.source().begin.line,
             key.str());
  }
  [[noreturn]] void wrong(std::string_view key, std::string_view expected) const {
    fail(Errc::kInvalidArgument, "{}:{}: {}: expected {}", file_, line_of(key), key, expected);
  }

 private:
  const toml::node& required(std::string_view key) {
    asked_.insert(std::string(key));
    const toml::node* node = table_.get(key);
    if (node == nullptr)
      fail(Errc::kInvalidArgument, "{}:{}: expected a key '{}'", file_, table_.source().begin.line, key);
    return *node;
  }
  [[noreturn]] void wrong(const toml::node& node, std::string_view key, std::string_view expected) const {
    fail(Errc::kInvalidArgument, "{}:{}: {}: expected {}", file_, node.source().begin.line, key, expected);
  }

  const toml::table& table_;
  std::string file_;
  std::set<std::string> asked_;
};

// Throws Error kInvalidArgument with the line of what is no TOML.
inline toml::table parse_toml(std::string_view text, std::string_view name) {
  try {
    return toml::parse(text, name);
  } catch (const toml::parse_error& error) {
    fail(Errc::kInvalidArgument, "{}:{}: {}", name, error.source().begin.line, error.description());
  }
}

}  // namespace butterfly
