#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "server/routes/routes.h"

namespace butterfly::server {

void respond_json(Exchange& exchange, const std::string& body) {
  HttpResponse response;
  response.body = body;
  exchange.respond(std::move(response));
}

Json body_of(const Exchange& exchange) {
  const HttpRequest& request = exchange.request();
  if (const std::string* type = request.field("content-type")) {
    const std::string plain = type->substr(0, type->find(';'));
    // The second is what curl says when it is told nothing. Both need no trust: pages are kept out by their
    // Origin.
    if (plain != "application/json" && plain != "application/x-www-form-urlencoded")
      throw ApiError(415, "invalid_request_error",
                     fmt::format("the body is '{:.60}', expected application/json", *type));
  }
  return parse_json(request.body);
}

Generation new_generation(ServerContext& context, const Exchange& exchange, const std::string& model) {
  Generation generation;
  generation.model = context.models->ready(model);
  uint64_t owner = 0;
  context.access.check_key(exchange.request(), &owner);
  generation.request.client = owner;
  generation.request.background = context.access.is_background(owner);
  generation.lease = context.quotas->begin(owner, SystemClock::instance().now());
  if (context.settings.request_seconds > 0)
    generation.request.deadline =
        SystemClock::instance().now() + std::chrono::seconds(context.settings.request_seconds);
  return generation;
}

}  // namespace butterfly::server
