// All routes of the server. Adding one: a function in routes/, a declaration in routes/routes.h, one row in
// the table.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "server/api/api_error.h"
#include "server/http/exchange.h"
#include "server/http/http_server.h"

namespace butterfly::server {

struct ServerContext;

enum RouteFlag : unsigned {
  kPlain = 0,
  kPublic = 1,       // without a key
  kQuick = 2,        // runs on the network's thread: it never waits and never works
  kOllamaShape = 4,  // of errors
  kManagement = 8,   // only on the unix socket
  kAnthropicShape = 16,
  kOperator = 32,  // with an operator's key only
};

struct Route {
  std::string_view method;
  std::string_view path;  // "/v1/models/{id}": the last part may be anything
  unsigned flags;
  void (*run)(ServerContext& context, ExchangePtr exchange);
  std::string_view help;
};

std::span<const Route> route_table();

struct RouteMatch {
  const Route* route = nullptr;  // null: none
  bool path_known = false;       // with another method
  std::string allowed;           // methods of that path: "GET, HEAD"
};
// HEAD goes where GET goes.
RouteMatch find_route(std::string_view method, std::string_view path, Door door);

// The text behind the last '/' that a {} stands for, with slashes: names of models may have them.
std::string path_parameter(const Route& route, std::string_view path);

}  // namespace butterfly::server
