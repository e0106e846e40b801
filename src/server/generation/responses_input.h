// Requests of OpenAI's Responses in the words of chat: messages and tools that templates know.
#pragma once
#include <map>
#include <string>
#include <utility>

#include "server/api/fields.h"

namespace butterfly::server {

// "input" and "instructions" as chat messages. Throws ApiError 400 that names the item.
Json messages_of_input(const Json& input, const std::string& instructions);

struct ResponseTools {
  Json list = Json::array();  // functions as chat has them; those of a namespace as NAMESPACE__NAME
  std::map<std::string, std::pair<std::string, std::string>> spaces;  // by that name: namespace and name
};
// "tools": functions, and namespaces of functions, which calls are given back with. Tools that a server of
// OpenAI's would run itself are left out: no model here could call them.
ResponseTools tools_of_response(const Json* tools);

// Refuses a field that refers to what an earlier request left.
[[noreturn]] void nothing_is_kept(const std::string& field, const char* code);

}  // namespace butterfly::server
