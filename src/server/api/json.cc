#include "server/api/json.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/utf8.h"
#include "server/api/api_error.h"

namespace butterfly::server {
namespace {

[[noreturn]] void bad_json(const std::string& words) {
  throw ApiError(400, "invalid_request_error", "the body is not JSON that can be read: " + words, {},
                 "invalid_json");
}

// Counts brackets and separators outside strings. Up to the first mistake in the text this sees what the
// parser sees.
void check_shape(std::string_view text) {
  size_t depth = 0, values = 1;
  for (size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '"':
        for (++i; i < text.size() && text[i] != '"'; ++i)
          if (text[i] == '\\') ++i;
        break;
      case '[':
      case '{':
        ++values;
        if (++depth > kJsonDepthMax)
          bad_json(fmt::format("byte {}: nested deeper than {} levels", i, kJsonDepthMax));
        break;
      case ']':
      case '}':
        if (depth > 0) --depth;
        break;
      case '\0':  // the parser would take it for the end
        bad_json(fmt::format("byte {} is 0", i));
      case ',':
        ++values;
        break;
      default:
        break;
    }
  }
  if (values > kJsonValuesMax)
    bad_json(fmt::format("{} values, at most {} are read", values, kJsonValuesMax));
}

size_t first_invalid_utf8(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    if (static_cast<unsigned char>(text[i]) < 0x80) {
      ++i;
      continue;
    }
    const size_t length = utf8_length(text.substr(i, 4));
    if (length == 0) return i;
    i += length;
  }
  return std::string_view::npos;
}

// Builds the value, and refuses a key that comes twice in one object. The library's own builder looks through
// all keys before each one, which a body of many keys turns into minutes; here the set knows, and keys are
// appended.
class Builder {
 public:
  explicit Builder(Json& to) : slot_(&to) {}

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(Json::number_integer_t value) { return put(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return put(value); }
  bool number_float(Json::number_float_t value, const std::string&) {
    if (!std::isfinite(value)) bad_json("a number is too large");
    return put(value);
  }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }  // not of texts

  bool start_object(size_t) {
    open_.push_back({open(Json::object()), {}});
    return true;
  }
  bool key(std::string& name) {
    auto& object = open_.back().value->get_ref<Json::object_t&>();
    if (object.size() == kJsonKeysMax) bad_json(fmt::format("an object of more than {} keys", kJsonKeysMax));
    if (!open_.back().keys.insert(name).second)
      bad_json(fmt::format("the key '{:.100}' comes twice in one object", name));
    slot_ = &static_cast<Entries&>(object).emplace_back(std::move(name), nullptr).second;
    return true;
  }
  bool end_object() { return close(); }
  bool start_array(size_t) {
    open_.push_back({open(Json::array()), {}});
    return true;
  }
  bool end_array() { return close(); }

  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& error) {
    std::string words = error.what();
    if (const size_t end = words.find("] "); end != std::string::npos) words.erase(0, end + 2);
    if (words.size() > 300) words.resize(utf8_whole_bytes(words.substr(0, 300)));
    bad_json(words);
  }

 private:
  using Entries = std::vector<std::pair<const std::string, Json>>;
  // Holders of open values do not move: what grows is always the innermost one.
  struct Open {
    Json* value;
    std::set<std::string> keys;
  };

  // Where the next value belongs.
  Json* open(Json value) {
    if (!open_.empty() && open_.back().value->is_array()) {
      auto& array = open_.back().value->get_ref<Json::array_t&>();
      return &array.emplace_back(std::move(value));
    }
    *slot_ = std::move(value);
    return slot_;
  }
  bool put(Json value) {
    open(std::move(value));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Json* slot_;  // the root, or the value of the last key
  std::vector<Open> open_;
};

}  // namespace

Json parse_json(std::string_view text) {
  if (text.empty()) bad_json("it is empty");
  check_shape(text);
  if (const size_t at = first_invalid_utf8(text); at != std::string_view::npos)
    bad_json(fmt::format("byte {} is not UTF-8", at));
  Json json;
  Builder builder(json);
  Json::sax_parse(text, &builder);
  return json;
}

std::string to_text(const Json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace butterfly::server
