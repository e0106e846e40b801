// GET /health: whether requests are worked on, now.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "server/context/health.h"
#include "server/routes/routes.h"

namespace butterfly::server {

void health(ServerContext& context, ExchangePtr exchange) {
  const std::string why = why_not_ready(context);
  HttpResponse response;
  response.status = why.empty() ? 200 : 503;
  if (!why.empty()) response.fields.emplace_back("Retry-After", "1");
  response.body =
      to_text(why.empty() ? Json{{"status", "ok"}} : Json{{"status", "not ready"}, {"reason", why}});
  exchange->respond(std::move(response));
}

}  // namespace butterfly::server
