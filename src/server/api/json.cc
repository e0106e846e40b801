#include "server/api/json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

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

// Builds the value and refuses a key that comes twice in one object.
class Builder : public nlohmann::detail::json_sax_dom_parser<Json> {
 public:
  explicit Builder(Json& to) : json_sax_dom_parser(to, true) {}

  bool start_object(size_t size) {
    keys_.emplace_back();
    return json_sax_dom_parser::start_object(size);
  }
  bool key(std::string& name) {
    // Few keys: looking at each is cheap. Many: the text is hostile or data, and a set pays.
    if (!keys_.back().insert(name).second)
      bad_json(fmt::format("the key '{:.100}' comes twice in one object", name));
    return json_sax_dom_parser::key(name);
  }
  bool end_object() {
    keys_.pop_back();
    return json_sax_dom_parser::end_object();
  }

 private:
  std::vector<std::set<std::string>> keys_;
};

}  // namespace

Json parse_json(std::string_view text) {
  if (text.empty()) bad_json("it is empty");
  check_shape(text);
  if (const size_t at = first_invalid_utf8(text); at != std::string_view::npos)
    bad_json(fmt::format("byte {} is not UTF-8", at));
  Json json;
  Builder builder(json);
  try {
    Json::sax_parse(text, &builder);
  } catch (const nlohmann::json::exception& error) {
    std::string words = error.what();
    if (const size_t end = words.find("] "); end != std::string::npos) words.erase(0, end + 2);
    if (words.size() > 300) words.resize(utf8_whole_bytes(words.substr(0, 300)));
    bad_json(words);
  }
  return json;
}

std::string to_text(const Json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace butterfly::server
