// JSON text to values and back, compiled once: in every file that calls parse() and dump() of nlohmann-json
// itself their templates cost two seconds.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace butterfly {

// `Json` is nlohmann::json or nlohmann::ordered_json. Throws its parse_error.
template <typename Json>
Json json_of_text(std::string_view text);
// A discarded value where `text` is not JSON.
template <typename Json>
Json json_of_text_or_none(std::string_view text);

// Bytes that are not UTF-8 become U+FFFD. A negative indent: all on one line.
std::string json_text(const nlohmann::json& value, int indent = -1);
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

}  // namespace butterfly
