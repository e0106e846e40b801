// GET /metrics: Prometheus' text form, under vLLM's names where they mean the same.
#include <fmt/format.h>

#include <set>
#include <utility>

#include "runtime/nodes/cluster_host.h"
#include "server/context/health.h"
#include "server/context/metrics_text.h"
#include "server/routes/routes.h"
#include "tensor/process_pool.h"

namespace butterfly::server {
namespace {

// The nodes of the cluster, as their last heartbeats said.
void node_metrics(const cluster::ClusterStatus& status, MetricsText& out) {
  using Node = cluster::NodeStatus;
  const auto each = [&](std::string_view name, std::string_view help, auto value) {
    out.family(name, "gauge", help);
    for (const Node& node : status.nodes)
      out.value(name, {{"node", node.name}}, static_cast<double>(value(node)));
  };
  each("butterfly_node_up", "1 if the node is here.",
       [](const Node& n) { return n.state == "up" || n.state == "suspect" ? 1 : 0; });
  each("butterfly_node_busy_ratio", "Share of the last seconds in which its stages computed.",
       [](const Node& n) { return n.busy; });
  each("butterfly_node_machine_busy_ratio", "Share of its CPUs' time that anybody used.",
       [](const Node& n) { return n.machine.busy; });
  each("butterfly_node_rows_per_second", "Rows its stages worked on.",
       [](const Node& n) { return n.rows_per_s; });
  each("butterfly_node_pending_steps", "Steps that have arrived there and are not done.", [](const Node& n) {
    uint64_t pending = 0;
    for (const cluster::NodeJobStatus& job : n.jobs) pending += job.pending;
    return pending;
  });
  each("butterfly_node_free_bytes", "Memory for weights and cache of all jobs, what they hold included.",
       [](const Node& n) { return n.ram_free_bytes; });
  each("butterfly_node_process_bytes", "Memory of its process, without mapped files.",
       [](const Node& n) { return n.machine.process_bytes; });
  each("butterfly_node_celsius", "Its hottest sensor; 0: none can be seen.",
       [](const Node& n) { return n.machine.celsius; });
  each("butterfly_node_throttles", "How often heat has slowed a CPU of it down.",
       [](const Node& n) { return n.machine.throttles; });
  each("butterfly_node_held_up_seconds",
       "How long what comes to its process waits until that runs, on average.",
       [](const Node& n) { return n.machine.held_up_s; });
  each("butterfly_node_silent_seconds", "Since its last heartbeat.",
       [](const Node& n) { return n.silent_s; });
}

}  // namespace

void metrics(ServerContext& context, ExchangePtr exchange) {
  MetricsText out;
  const auto models = context.models->list();
  // Once for each engine, which a model and its adapters share.
  const auto each = [&](std::string_view name, std::string_view type, std::string_view help, auto value) {
    out.family(name, type, help);
    std::set<const ModelEngine*> told;
    for (const ModelInfo& info : models)
      if (info.model != nullptr && told.insert(info.model->shared().get()).second)
        value(info.model->shared()->name(), info.model->engine().stats());
  };
  // Once for each model and adapter, so that sums over all names are right.
  const auto by_name = [&](std::string_view name, std::string_view type, std::string_view help, auto value) {
    out.family(name, type, help);
    std::set<std::pair<const ModelEngine*, runtime::AdapterPtr>> told;
    for (const ModelInfo& info : models)
      if (info.model != nullptr && told.emplace(info.model->shared().get(), info.model->adapter()).second)
        out.value(name, {{"model_name", info.spec.name}}, static_cast<double>(value(info.model->counts())));
  };
  const auto number = [&](std::string_view name, std::string_view type, std::string_view help, auto value) {
    each(name, type, help, [&](const std::string& model, const runtime::EngineStats& stats) {
      out.value(name, {{"model_name", model}}, static_cast<double>(value(stats)));
    });
  };
  using Stats = const runtime::EngineStats&;
  using Counts = const runtime::RequestCounts&;
  by_name("vllm:num_requests_running", "gauge", "Requests that advance in every step.",
          [](Counts c) { return c.running; });
  by_name("vllm:num_requests_waiting", "gauge", "Requests in the queue.", [](Counts c) { return c.waiting; });
  number("vllm:kv_cache_usage_perc", "gauge",
         "Share of the key/value pages that running requests hold, 0 to 1.", [](Stats s) {
           return s.pages == 0 ? 0.0 : static_cast<double>(s.pages_used) / static_cast<double>(s.pages);
         });
  by_name("vllm:prompt_tokens_total", "counter", "Prompt tokens, cached ones included.",
          [](Counts c) { return c.prompt_tokens; });
  by_name("vllm:generation_tokens_total", "counter", "Tokens generated.",
          [](Counts c) { return c.generated_tokens; });
  by_name("vllm:prefix_cache_queries_total", "counter", "Prompt tokens looked for in the cache.",
          [](Counts c) { return c.prompt_tokens; });
  by_name("vllm:prefix_cache_hits_total", "counter", "Prompt tokens found there.",
          [](Counts c) { return c.cached_tokens; });
  number("vllm:num_preemptions_total", "counter",
         "Requests that had to give their pages back and start again.",
         [](Stats s) { return s.preemptions; });
  number("vllm:spec_decode_num_draft_tokens_total", "counter", "Tokens guessed ahead.",
         [](Stats s) { return s.draft_tokens; });
  number("vllm:spec_decode_num_accepted_tokens_total", "counter", "Guesses that were right.",
         [](Stats s) { return s.draft_accepted; });
  number("butterfly_steps_ahead_total", "counter",
         "Steps of a chain that began before the text in front of them was known.",
         [](Stats s) { return s.ahead_steps; });
  number("butterfly_steps_ahead_void_total", "counter", "Of those: in vain.",
         [](Stats s) { return s.ahead_void; });
  const auto histogram = [&](std::string_view name, std::string_view help, auto member) {
    each(name, "histogram", help, [&](const std::string& model, Stats stats) {
      out.histogram(name, {{"model_name", model}}, stats.*member);
    });
  };
  using S = runtime::EngineStats;
  histogram("vllm:time_to_first_token_seconds", "From submission to the first token.", &S::first_token);
  histogram("vllm:inter_token_latency_seconds", "Between tokens of one request.", &S::token_gap);
  histogram("vllm:e2e_request_latency_seconds", "From submission to the end.", &S::request_time);
  histogram("vllm:request_queue_time_seconds", "From submission to the first row computed.", &S::queue_time);
  each("vllm:request_success_total", "counter", "Requests that ended, by reason.",
       [&](const std::string& model, Stats stats) {
         for (size_t i = 0; i < stats.finished.size(); ++i)
           out.value("vllm:request_success_total",
                     {{"model_name", model},
                      {"finished_reason",
                       std::string(runtime::finish_reason_name(static_cast<runtime::FinishReason>(i)))}},
                     static_cast<double>(stats.finished[i]));
       });
  number("butterfly_engine_steps_total", "counter", "Steps of the engine.", [](Stats s) { return s.steps; });
  number("butterfly_engine_rows_total", "counter", "Rows computed in them.", [](Stats s) { return s.rows; });
  number("butterfly_rows_again_total", "counter", "Rows computed again because the cluster's plan changed.",
         [](Stats s) { return s.again_rows; });
  number("butterfly_row_layers_again_total", "counter",
         "Rows computed again, times the layers that they passed.",
         [](Stats s) { return s.again_row_layers; });
  number("butterfly_moves_sent_total", "counter",
         "Changes of plan after which pages of layers that moved were sent between nodes.",
         [](Stats s) { return s.moves_sent; });
  number("butterfly_moves_computed_total", "counter",
         "Changes of plan after which they could have been sent, and computing them was cheaper.",
         [](Stats s) { return s.moves_computed; });
  number("butterfly_moved_bytes_total", "counter", "Bytes of pages that were sent between nodes.",
         [](Stats s) { return s.moved_bytes; });
  number("butterfly_moved_row_layers_total", "counter",
         "Positions of texts that were sent, times the layers that got them.",
         [](Stats s) { return s.moved_row_layers; });
  number("butterfly_chain_changes_total", "counter", "Chains of stages that took the place of another.",
         [](Stats s) { return s.chains; });
  number("butterfly_requests_refused_total", "counter", "Requests refused because the queue was full.",
         [](Stats s) { return s.refused; });

  const auto plain = [&](std::string_view name, std::string_view type, std::string_view help, double value) {
    out.family(name, type, help);
    out.value(name, {}, value);
  };
  const HttpCounters& http = context.http->counters();
  plain("butterfly_ready", "gauge", "1 if requests are taken and worked on.",
        why_not_ready(context).empty() ? 1 : 0);
  plain("butterfly_http_connections", "gauge", "Open connections.", static_cast<double>(http.connections));
  plain("butterfly_http_connections_accepted_total", "counter", "Connections accepted.",
        static_cast<double>(http.accepted));
  plain("butterfly_http_connections_evicted_total", "counter", "Idle connections closed to make room.",
        static_cast<double>(http.evicted));
  plain("butterfly_http_timeouts_total", "counter",
        "Connections closed because a request took too long to arrive.", static_cast<double>(http.timed_out));
  plain("butterfly_http_slow_clients_total", "counter", "Clients cut because they did not read.",
        static_cast<double>(http.slow_clients));
  plain("butterfly_http_refused_heads_total", "counter", "Requests refused by host, origin, key or route.",
        static_cast<double>(http.refused_heads));
  out.family("butterfly_http_responses_total", "counter", "Answers by class of status.");
  for (size_t i = 2; i < http.responses.size(); ++i)
    out.value("butterfly_http_responses_total", {{"class", fmt::format("{}xx", i)}},
              static_cast<double>(http.responses[i]));
  if (context.cluster != nullptr) node_metrics(context.cluster->coordinator().status(UINT64_MAX, 0), out);
  const TensorPool::Stats pool = process_pool().stats();
  plain("butterfly_pool_hits_total", "counter", "Buffers that the memory pool had at hand.",
        static_cast<double>(pool.hits));
  plain("butterfly_pool_misses_total", "counter", "Buffers that the memory pool took from the system.",
        static_cast<double>(pool.misses));
  plain("butterfly_pool_bytes_in_use", "gauge", "Bytes of the memory pool in use.",
        static_cast<double>(pool.bytes_in_use));
  plain("butterfly_pool_bytes_idle", "gauge", "Bytes that the memory pool keeps for reuse.",
        static_cast<double>(pool.bytes_idle));
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = out.take();
  exchange->respond(std::move(response));
}

}  // namespace butterfly::server
