// From requests to routes: who is let in, which function answers, what an exception becomes.
#pragma once
#include <atomic>
#include <memory>

#include "server/context/server_context.h"
#include "server/http/http_server.h"
#include "server/work_queue.h"

namespace butterfly::server {

// Before the body is read: site, route, key. Null: go on.
std::unique_ptr<HttpResponse> check_head(ServerContext& context, const HttpRequest& request, Door door);

// Runs the route, here or on a thread of the queue.
void dispatch(ServerContext& context, WorkQueue& queue, ExchangePtr exchange, Door door);

// Answers a request of an earlier process again. False: the server has too much to do, or loads the model;
// try again soon.
bool answer_again(ServerContext& context, const ExchangePtr& exchange);

}  // namespace butterfly::server
