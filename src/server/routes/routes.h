// The function of each route; see Route in route_table.h. They throw ApiError or Error for what cannot be
// served.
#pragma once
#include "server/api/json.h"
#include "server/context/server_context.h"
#include "server/generation/answer.h"
#include "server/http/exchange.h"

namespace butterfly::server {

using RouteFunction = void(ServerContext& context, ExchangePtr exchange);

// OpenAI's.
RouteFunction list_models, show_model, chat_completions, completions, embeddings, responses;
RouteFunction upload_file, list_files, show_file, delete_file, create_fine_tuning, list_fine_tuning,
    show_fine_tuning, change_fine_tuning, delete_model;
// Anthropic's.
RouteFunction messages, count_message_tokens;
// llama.cpp's and vLLM's.
RouteFunction health, metrics, tokenize, detokenize, llama_props, llama_slots, llama_apply_template,
    llama_completion, llama_infill, rerank;
// Ollama's.
RouteFunction ollama_version, ollama_tags, ollama_ps, ollama_show, ollama_chat, ollama_generate, ollama_embed,
    ollama_embeddings, ollama_pull, ollama_no_store;
// Of the cluster, where there is one.
RouteFunction cluster_status, cluster_events, cluster_load, cluster_remove, cluster_token, cluster_drain,
    cluster_resume, training_status;
// The page.
RouteFunction page_root, page_file;
// Streams that can be taken up again.
RouteFunction resume_stream;
// For the operator, on the unix socket.
RouteFunction manage_ps, manage_stop, manage_load, manage_unload;

// What several of them share.
void respond_json(Exchange& exchange, std::string body);
// The body as an object; throws ApiError 400 or 415.
Json body_of(const Exchange& exchange);
// A value of the query, decoded; empty where there is none.
std::string query_value(const HttpRequest& request, std::string_view name);
// Which part of a list is asked for: "?after=ID&limit=N".
struct PageQuery {
  std::string after;
  size_t limit = 20;
};
// Throws ApiError 400 for a limit that is no number from 1 to `limit_max`.
PageQuery page_query(const HttpRequest& request, size_t limit_max);
// Whose key the request came with; 0 where none is asked for.
uint64_t owner_of(ServerContext& context, const Exchange& exchange);
// A generation for the model of this name, with the client's share and the deadline.
Generation new_generation(ServerContext& context, const Exchange& exchange, const std::string& model);

}  // namespace butterfly::server
