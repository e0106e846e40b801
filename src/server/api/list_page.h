// Lists in pages, as OpenAI cuts them: "?after=ID&limit=N".
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "server/api/json.h"

namespace butterfly::server {

// Rows come with the newest first; `shown` makes an object with an "id" of each. An `after` that is none of
// them: an empty page.
template <typename Rows, typename Shown>
Json page_of(const Rows& newest_first, const std::string& after, size_t limit, const Shown& shown) {
  Json data = Json::array();
  bool begun = after.empty(), more = false;
  for (const auto& row : newest_first) {
    const Json object = shown(row);
    if (begun && data.size() == limit) {
      more = true;
      break;
    }
    if (begun) data.push_back(object);
    begun = begun || object["id"] == after;
  }
  const Json first = data.empty() ? Json() : data.front()["id"],
             last = data.empty() ? Json() : data.back()["id"];
  return {{"object", "list"},
          {"data", std::move(data)},
          {"first_id", first},
          {"last_id", last},
          {"has_more", more}};
}

}  // namespace butterfly::server
