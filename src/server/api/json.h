// The JSON type of the API: keeps the order of keys, which schemas and tool arguments need. The full header
// is heavy: only .cc files that look inside include it.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace butterfly::server {

using Json = nlohmann::ordered_json;

inline constexpr size_t kJsonDepthMax = 64;
inline constexpr size_t kJsonValuesMax = 500'000;  // a value takes up to 100 bytes in memory

inline constexpr size_t kJsonKeysMax = 16'384;  // of one object: every look-up passes them one by one

// Checked before anything is built: depth, number of values, UTF-8. Takes time in proportion to the text.
// Throws ApiError 400 that says where. Duplicate keys are refused too: two readers of the same text must see
// the same.
Json parse_json(std::string_view text);

// On one line. Bytes that are not UTF-8 become U+FFFD: models may write them.
std::string to_text(const Json& json);

}  // namespace butterfly::server
