#include "server/dispatch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <new>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "server/generation/heavy_work.h"
#include "server/routes/route_table.h"

namespace butterfly::server {
namespace {

constexpr size_t kHeavyBodyBytes = size_t{16} << 10;  // more takes a good part of a millisecond to be read

std::unique_ptr<HttpResponse> refusal(const ApiError& error, const HttpRequest& request,
                                      ErrorShape shape = ErrorShape::kOpenAi) {
  log_info("refused {:.10} {:.200}: {} {}", request.method, request.path, error.status, error.what());
  return std::make_unique<HttpResponse>(error_response(error, shape));
}

// A browser asks before it sends JSON from an allowed page, and names the fields it will send: SDKs add many
// of their own (x-stainless-*, x-api-key, anthropic-*). Only names are repeated.
std::string allowed_fields(const HttpRequest& request) {
  const std::string* asked = request.field("access-control-request-headers");
  const auto is_name = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == ',' || c == ' ';
  };
  if (asked == nullptr || asked->empty() || asked->size() > 2048 || !std::ranges::all_of(*asked, is_name))
    return "Authorization, Content-Type";
  return *asked;
}

std::unique_ptr<HttpResponse> preflight(const HttpRequest& request) {
  auto response = std::make_unique<HttpResponse>();
  response->status = 204;
  response->content_type.clear();
  response->fields = {{"Access-Control-Allow-Methods", "GET, POST"},
                      {"Access-Control-Allow-Headers", allowed_fields(request)},
                      {"Access-Control-Max-Age", "600"}};
  return response;
}

void answer_error(Exchange& exchange, const ApiError& error, ErrorShape shape) {
  log_info("{} answered {}: {}", exchange.id(), error.status, error.what());
  exchange.respond(error_response(error, shape));
}

ErrorShape shape_of(const Route& route) {
  if ((route.flags & kAnthropicShape) != 0) return ErrorShape::kAnthropic;
  return (route.flags & kOllamaShape) != 0 ? ErrorShape::kOllama : ErrorShape::kOpenAi;
}

void enqueue(ServerContext& context, WorkQueue& queue, const Route& route, const ExchangePtr& exchange,
             WorkQueue::Weight weight);

WorkQueue::Weight weight_of(const Exchange& exchange) {
  return exchange.request().content().size() > kHeavyBodyBytes ? WorkQueue::Weight::kHeavy
                                                               : WorkQueue::Weight::kLight;
}

// The model that a request wants is loaded first, which takes seconds or minutes. Threads that prepare
// requests do not wait for that: the request comes back to them when the model is there.
void wait_for_model(ServerContext& context, WorkQueue& queue, const Route& route, const ExchangePtr& exchange,
                    const std::string& model) {
  const auto then = [&context, &queue, &route, exchange](const ApiError* error) {
    if (exchange->gone()) return;
    if (error != nullptr) return answer_error(*exchange, *error, shape_of(route));
    enqueue(context, queue, route, exchange, weight_of(*exchange));
  };
  if (context.models->load_then(model, then)) return;
  answer_error(
      *exchange,
      api_error_of(Errc::kQueueFull, "too many requests wait for models to be loaded; try again soon"),
      shape_of(route));
}

void run_route(ServerContext& context, WorkQueue& queue, const Route& route, const ExchangePtr& exchange) {
  const ErrorShape shape = shape_of(route);
  try {
    route.run(context, exchange);
  } catch (const ModelNotLoaded& missing) {
    wait_for_model(context, queue, route, exchange, missing.name);
  } catch (const HeavyWork&) {
    enqueue(context, queue, route, exchange, WorkQueue::Weight::kHeavy);
  } catch (const ApiError& error) {
    if (error.status == 429) ++context.counters.queue_full;
    answer_error(*exchange, error, shape);
  } catch (const Error& error) {
    answer_error(*exchange, api_error_of(error.code(), error.what()), shape);
  } catch (const std::bad_alloc&) {
    answer_error(*exchange, api_error_of(Errc::kOutOfMemory, "out of memory for this request"), shape);
  } catch (const std::exception& error) {
    log_error("{} failed: {}", exchange->id(), error.what());
    answer_error(*exchange,
                 ApiError(500, "server_error", "something went wrong in the server; its log says more"),
                 shape);
  }
}

void enqueue(ServerContext& context, WorkQueue& queue, const Route& route, const ExchangePtr& exchange,
             WorkQueue::Weight weight) {
  const bool taken = queue.push(
      [&context, &queue, &route, exchange] {
        if (!exchange->gone()) run_route(context, queue, route, exchange);
      },
      weight);
  if (taken) return;
  ++context.counters.queue_full;
  answer_error(*exchange, api_error_of(Errc::kQueueFull, "too many requests wait to be read; try again soon"),
               shape_of(route));
}

}  // namespace

std::unique_ptr<HttpResponse> check_head(ServerContext& context, const HttpRequest& request, Door door) {
  if (door == Door::kNetwork) {
    if (const auto error = context.access.check_site(request)) return refusal(*error, request);
    if (request.method == "OPTIONS" && request.field("origin") != nullptr) return preflight(request);
  }
  const RouteMatch match = find_route(request.method, request.path, door);
  const bool open = match.route != nullptr && (match.route->flags & kPublic) != 0;
  ErrorShape shape = request.path.starts_with("/api/") ? ErrorShape::kOllama : ErrorShape::kOpenAi;
  if (match.route != nullptr) shape = shape_of(*match.route);
  if (door == Door::kNetwork && !open) {
    uint64_t owner;
    if (const auto error = context.access.check_key(request, &owner)) return refusal(*error, request, shape);
    if (match.route != nullptr && (match.route->flags & kOperator) != 0)
      if (const auto error = context.access.check_operator(request)) return refusal(*error, request, shape);
  }
  if (match.route == nullptr && match.path_known) {
    auto response = refusal(ApiError(405, "invalid_request_error",
                                     fmt::format("{:.20} is not for {:.200}, only {}", request.method,
                                                 request.path, match.allowed)),
                            request, shape);
    response->fields.emplace_back("Allow", match.allowed);
    return response;
  }
  if (match.route == nullptr)
    return refusal(ApiError(404, "invalid_request_error",
                            fmt::format("there is nothing at {:.200}", request.path), {}, "unknown_url"),
                   request, shape);
  // What nobody reads nobody may send: bodies take memory, and public routes take them from anybody.
  if (match.route->method == "GET" && request.promises_body())
    return refusal(
        ApiError(400, "invalid_request_error", fmt::format("{} takes no body; leave it out", request.method)),
        request, shape);
  if (context.draining && (match.route->flags & (kQuick | kManagement)) == 0)
    return refusal(api_error_of(Errc::kCancelled, "the server is shutting down"), request, shape);
  if (context.may_speak && !context.may_speak() && (match.route->flags & (kQuick | kManagement)) == 0)
    return refusal(ApiError(503, "overloaded_error",
                            "this machine does not lead its cluster now: ask again, or the standby"),
                   request, shape);
  return nullptr;
}

void dispatch(ServerContext& context, WorkQueue& queue, ExchangePtr exchange, Door door) {
  ++context.counters.requests;
  const Route* route = find_route(exchange->request().method, exchange->request().path, door).route;
  BF_CHECK(route != nullptr) << "the head was checked";
  if (log_enabled(LogLevel::kDebug))
    log_debug("{} {} {}", exchange->id(), exchange->request().method, exchange->request().path);
  if ((route->flags & kQuick) != 0) return run_route(context, queue, *route, exchange);
  enqueue(context, queue, *route, exchange, weight_of(*exchange));
}

bool answer_again(ServerContext& context, const ExchangePtr& exchange) {
  const Route* route = find_route(exchange->request().method, exchange->request().path, Door::kNetwork).route;
  if (route == nullptr || exchange->gone()) return true;
  const auto failed = [&](const ApiError& error) {
    if (error.status == 429 || error.status == 503) return false;
    answer_error(*exchange, error, shape_of(*route));
    return true;
  };
  try {
    route->run(context, exchange);
  } catch (const ModelNotLoaded& missing) {
    try {
      context.models->acquire(missing.name);
      return false;
    } catch (const ApiError& error) {
      return failed(error);
    }
  } catch (const ApiError& error) {
    return failed(error);
  } catch (const Error& error) {
    return failed(api_error_of(error.code(), error.what()));
  } catch (const std::bad_alloc&) {
    return false;
  } catch (const std::exception& error) {
    log_error("{} failed: {}", exchange->id(), error.what());
    return failed(ApiError(500, "server_error", "something went wrong in the server; its log says more"));
  }
  return true;
}

}  // namespace butterfly::server
