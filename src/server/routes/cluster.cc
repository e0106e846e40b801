// GET /cluster: the state of the cluster; GET /cluster/events: what happens in it, as it happens. Nodes that
// go and come: POST /cluster/remove and /cluster/token.
#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "cluster/identity/join_token.h"
#include "runtime/nodes/cluster_host.h"
#include "server/api/fields.h"
#include "server/generation/pieces.h"
#include "server/routes/routes.h"

namespace butterfly::server {
namespace {

runtime::ClusterHost& cluster_of(ServerContext& context) {
  if (context.cluster == nullptr)
    throw ApiError(404, "invalid_request_error",
                   "this server has no cluster; start one with 'serve --cluster' or 'serve --local-nodes N'");
  return *context.cluster;
}

// "after=12" in the query: events with larger numbers.
uint64_t after_of(const HttpRequest& request) {
  constexpr std::string_view kName = "after=";
  const size_t at = request.query.find(kName);
  uint64_t number = 0;
  if (at == 0 || (at != std::string::npos && request.query[at - 1] == '&'))
    std::from_chars(request.query.data() + at + kName.size(), request.query.data() + request.query.size(),
                    number);
  return number;
}

std::string piece_of(const cluster::EventStatus& event) {
  return "id: " + std::to_string(event.number) + "\ndata: " + cluster::to_json(event) + "\n\n";
}

constexpr size_t kEventsAtOnce = 1000;

std::string asked_node(Exchange& exchange) {
  const Json body = body_of(exchange);
  std::string node = body.is_object() && body.contains("node") && body["node"].is_string()
                         ? body["node"].get<std::string>()
                         : std::string();
  if (node.empty())
    throw ApiError(400, "invalid_request_error", "'node' is missing: the name or key of a node", "node");
  return node;
}

void throw_unless_ok(const Status& status) {
  if (!status.ok()) throw api_error_of(status.code(), status.text());
}

}  // namespace

void cluster_status(ServerContext& context, ExchangePtr exchange) {
  respond_json(*exchange, cluster_of(context).status_json(after_of(exchange->request())));
}

void cluster_load(ServerContext& context, ExchangePtr exchange) {
  respond_json(*exchange, cluster_of(context).coordinator().load_json());
}

// What has happened since `after` (or the client's last event), then what happens.
void cluster_events(ServerContext& context, ExchangePtr exchange) {
  runtime::ClusterHost& cluster = cluster_of(context);
  uint64_t after = after_of(exchange->request());
  if (const std::string* last = exchange->request().field("last-event-id"))
    std::from_chars(last->data(), last->data() + last->size(), after);
  // Events between the two calls below come in both of them: the stream keeps the last number. What comes by
  // the first waits until the second has said what was before.
  struct EventStream {
    ExchangePtr exchange;
    std::mutex mutex;
    uint64_t last = 0;
  };
  auto stream = std::make_shared<EventStream>();
  stream->exchange = std::move(exchange);
  stream->last = after;
  const auto send = [stream](const cluster::EventStatus* event) {
    if (stream->exchange->gone()) return false;
    if (event == nullptr || event->number <= stream->last) return true;
    stream->last = event->number;
    stream->exchange->write(piece_of(*event));
    return true;
  };
  const std::lock_guard lock(stream->mutex);
  const bool taken = cluster.subscribe([stream, send](const cluster::EventStatus* event) {
    const std::lock_guard in_turn(stream->mutex);
    return send(event);
  });
  if (!taken)
    throw api_error_of(Errc::kQueueFull,
                       fmt::format("{} clients listen to events already; ask /cluster instead",
                                   runtime::ClusterHost::kSubscribersMax));
  stream->exchange->begin(sse_head(), ": ping\n\n");
  for (const cluster::EventStatus& event : cluster.coordinator().events(after, kEventsAtOnce)) send(&event);
}

void cluster_remove(ServerContext& context, ExchangePtr exchange) {
  const std::string node = asked_node(*exchange);
  throw_unless_ok(cluster_of(context).remove_node(node));
  respond_json(*exchange, to_text({{"node", node}, {"state", "removed"}}));
}

void cluster_token(ServerContext& context, ExchangePtr exchange) {
  const auto line = cluster_of(context).make_join_line();
  if (!line) throw api_error_of(line.status().code(), line.status().text());
  respond_json(*exchange, to_text({{"join", *line}, {"uses", 1}, {"life_s", cluster::kTokenLife.count()}}));
}

void cluster_drain(ServerContext& context, ExchangePtr exchange) {
  const std::string node = asked_node(*exchange);
  throw_unless_ok(cluster_of(context).coordinator().drain_node(node));
  respond_json(*exchange, to_text({{"node", node}, {"state", "draining"}}));
}

void cluster_resume(ServerContext& context, ExchangePtr exchange) {
  const std::string node = asked_node(*exchange);
  throw_unless_ok(cluster_of(context).coordinator().resume_node(node));
  respond_json(*exchange, to_text({{"node", node}, {"state", "resumed"}}));
}

}  // namespace butterfly::server
