// The operator's routes, on the unix socket only: what runs, load, unload, stop.
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "server/api/fields.h"
#include "server/context/health.h"
#include "server/routes/routes.h"

namespace butterfly::server {

void manage_ps(ServerContext& context, ExchangePtr exchange) {
  Json rows = Json::array();
  for (const ModelInfo& info : context.models->list()) {
    Json row = {{"name", info.spec.name},
                {"path", info.spec.path.string()},
                {"state", model_state_name(info.state)},
                {"bytes", info.bytes},
                {"weight_bytes", info.weight_bytes}};
    if (!info.spec.parent.empty()) row["parent"] = info.spec.parent;
    if (!info.why.empty()) row["error"] = info.why;
    if (info.model != nullptr) {
      const runtime::EngineStats stats = info.model->engine().stats();
      row["context"] = info.model->engine().context();
      // Of requests for this name; what follows is of the engine, which a model and its adapters share.
      const runtime::RequestCounts counts = info.model->counts();
      row["running"] = counts.running;
      row["waiting"] = counts.waiting;
      row["generated_tokens"] = counts.generated_tokens;
      row["pages"] = stats.pages;
      row["pages_used"] = stats.pages_used;
      row["pages_cached"] = stats.pages_cached;
      row["rows_again"] = stats.again_rows;
      row["row_layers_again"] = stats.again_row_layers;
      row["moves_sent"] = stats.moves_sent;
      row["moves_computed"] = stats.moves_computed;
      row["moved_bytes"] = stats.moved_bytes;
    }
    rows.push_back(std::move(row));
  }
  const std::string why = why_not_ready(context);
  respond_json(*exchange,
               to_text({{"url", context.settings.host + ":" + std::to_string(context.http->port())},
                        {"pid", static_cast<int64_t>(getpid())},
                        {"version", context.version},
                        {"ready", why.empty()},
                        {"reason", why},
                        {"connections", context.http->counters().connections.load()},
                        {"open_requests", context.http->open_exchanges()},
                        {"models", std::move(rows)}}));
}

void manage_stop(ServerContext& context, ExchangePtr exchange) {
  respond_json(*exchange, to_text({{"status", "draining"}}));
  context.begin_drain();
}

void manage_load(ServerContext& context, ExchangePtr exchange) {
  const Json body = body_of(*exchange);
  const Fields fields(body, kLoadFields);
  std::string name = fields.string("model");
  if (const std::string file = fields.string("file"); !file.empty()) {
    try {
      name = context.add_model(name + "=" + file);
    } catch (const Error& error) {
      throw api_error_of(error.code(), error.what());
    }
  }
  context.models->acquire(name);
  respond_json(*exchange, to_text({{"model", name}, {"state", "ready"}}));
}

void manage_unload(ServerContext& context, ExchangePtr exchange) {
  const Json body = body_of(*exchange);
  const std::string name = Fields(body, kLoadFields).string("model");
  if (!context.models->has(name))
    throw ApiError(404, "invalid_request_error", "no model '" + name + "'", "model", "model_not_found");
  if (!context.models->unload(name))
    throw ApiError(409, "invalid_request_error", "the model '" + name + "' is not loaded, or in use",
                   "model");
  respond_json(*exchange, to_text({{"model", name}, {"state", "unloaded"}}));
}

}  // namespace butterfly::server
