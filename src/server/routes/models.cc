// GET /v1/models and /v1/models/{id}.
#include <nlohmann/json.hpp>

#include "server/generation/pieces.h"
#include "server/routes/route_table.h"
#include "server/routes/routes.h"

namespace butterfly::server {
namespace {

Json model_json(const ServerContext& context, const ModelInfo& info) {
  const auto created =
      std::chrono::duration_cast<std::chrono::seconds>(context.started.time_since_epoch()).count();
  Json json = {{"id", info.spec.name},
               {"object", "model"},
               {"created", created},
               {"owned_by", "butterfly"},
               // What Anthropic's clients look for.
               {"type", "model"},
               {"display_name", info.spec.name},
               {"created_at", rfc3339(context.started)},
               {"status", model_state_name(info.state)}};
  if (!info.spec.parent.empty()) json["parent"] = info.spec.parent;
  if (info.model != nullptr) json["max_model_len"] = info.model->engine().context();
  return json;
}

}  // namespace

void list_models(ServerContext& context, ExchangePtr exchange) {
  Json data = Json::array();
  for (const ModelInfo& info : context.models->list(owner_of(context, *exchange)))
    data.push_back(model_json(context, info));
  const Json first = data.empty() ? Json() : data.front()["id"],
             last = data.empty() ? Json() : data.back()["id"];
  respond_json(*exchange, to_text({{"object", "list"},
                                   {"data", std::move(data)},
                                   {"has_more", false},
                                   {"first_id", first},
                                   {"last_id", last}}));
}

void show_model(ServerContext& context, ExchangePtr exchange) {
  const RouteMatch match = find_route("GET", exchange->request().path, Door::kNetwork);
  const std::string name = path_parameter(*match.route, exchange->request().path);
  for (const ModelInfo& info : context.models->list(owner_of(context, *exchange)))
    if (info.spec.name == name) return respond_json(*exchange, to_text(model_json(context, info)));
  throw ApiError(404, "invalid_request_error", "the model '" + name + "' does not exist here", "model",
                 "model_not_found");
}

}  // namespace butterfly::server
