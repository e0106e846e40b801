#include "base/json_text.h"

#include <nlohmann/json.hpp>

namespace butterfly {
namespace {

template <typename Json>
std::string dump(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

template <typename Json>
Json json_of_text(std::string_view text) {
  return Json::parse(text);
}

template <typename Json>
Json json_of_text_or_none(std::string_view text) {
  return Json::parse(text, nullptr, false);
}

template nlohmann::json json_of_text(std::string_view);
template nlohmann::ordered_json json_of_text(std::string_view);
template nlohmann::json json_of_text_or_none(std::string_view);
template nlohmann::ordered_json json_of_text_or_none(std::string_view);

std::string json_text(const nlohmann::json& value, int indent) { return dump(value, indent); }
std::string json_text(const nlohmann::ordered_json& value, int indent) { return dump(value, indent); }

}  // namespace butterfly
