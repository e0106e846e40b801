#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "server/routes/routes.h"

namespace butterfly::server {

void respond_json(Exchange& exchange, std::string body) {
  HttpResponse response;
  response.body = std::move(body);
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

std::string query_value(const HttpRequest& request, std::string_view name) {
  std::string_view rest = request.query;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view pair = rest.substr(0, end);
    rest.remove_prefix(std::min(rest.size(), end + 1));
    if (pair.size() <= name.size() || !pair.starts_with(name) || pair[name.size()] != '=') continue;
    std::string value;
    if (!percent_decode(pair.substr(name.size() + 1), value))
      bad_field(std::string(name), fmt::format("'{}' in the query cannot be read", name));
    return value;
  }
  return {};
}

PageQuery page_query(const HttpRequest& request, size_t limit_max) {
  PageQuery page{.after = query_value(request, "after")};
  const std::string limit = query_value(request, "limit");
  if (limit.empty()) return page;
  const auto [end, error] = std::from_chars(limit.data(), limit.data() + limit.size(), page.limit);
  if (error != std::errc() || end != limit.data() + limit.size() || page.limit == 0 || page.limit > limit_max)
    bad_field("limit", fmt::format("'limit' is '{:.20}', expected a number from 1 to {}", limit, limit_max));
  return page;
}

uint64_t owner_of(ServerContext& context, const Exchange& exchange) {
  uint64_t owner = 0;
  context.access.check_key(exchange.request(), &owner);
  return owner;
}

Generation new_generation(ServerContext& context, const Exchange& exchange, const std::string& model) {
  Generation generation;
  const uint64_t owner = owner_of(context, exchange);
  generation.model = context.models->ready(model, owner);
  generation.request.adapter = generation.model->adapter();
  generation.request.client = owner;
  generation.request.background = context.access.is_background(owner);
  generation.lease = context.quotas->begin(owner, SystemClock::instance().now());
  if (context.settings.request_seconds > 0)
    generation.request.deadline =
        SystemClock::instance().now() + std::chrono::seconds(context.settings.request_seconds);
  return generation;
}

}  // namespace butterfly::server
