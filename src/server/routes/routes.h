// The function of each route; see Route in route_table.h. They throw ApiError or Error for what cannot be
// served.
#pragma once
#include "server/api/json.h"
#include "server/context/server_context.h"
#include "server/generation/answer.h"
#include "server/http/exchange.h"

namespace butterfly::server {

// OpenAI's.
void list_models(ServerContext& context, ExchangePtr exchange);
void show_model(ServerContext& context, ExchangePtr exchange);
void chat_completions(ServerContext& context, ExchangePtr exchange);
void completions(ServerContext& context, ExchangePtr exchange);
void embeddings(ServerContext& context, ExchangePtr exchange);
void responses(ServerContext& context, ExchangePtr exchange);

// llama.cpp's and vLLM's.
void health(ServerContext& context, ExchangePtr exchange);
void metrics(ServerContext& context, ExchangePtr exchange);
void tokenize(ServerContext& context, ExchangePtr exchange);
void detokenize(ServerContext& context, ExchangePtr exchange);

// Ollama's.
void ollama_root(ServerContext& context, ExchangePtr exchange);
void ollama_version(ServerContext& context, ExchangePtr exchange);
void ollama_tags(ServerContext& context, ExchangePtr exchange);
void ollama_ps(ServerContext& context, ExchangePtr exchange);
void ollama_show(ServerContext& context, ExchangePtr exchange);
void ollama_chat(ServerContext& context, ExchangePtr exchange);
void ollama_generate(ServerContext& context, ExchangePtr exchange);
void ollama_embed(ServerContext& context, ExchangePtr exchange);

// Of the cluster, where there is one.
void cluster_status(ServerContext& context, ExchangePtr exchange);
void cluster_events(ServerContext& context, ExchangePtr exchange);
void cluster_remove(ServerContext& context, ExchangePtr exchange);

// For the operator, on the unix socket.
void manage_ps(ServerContext& context, ExchangePtr exchange);
void manage_stop(ServerContext& context, ExchangePtr exchange);
void manage_load(ServerContext& context, ExchangePtr exchange);
void manage_unload(ServerContext& context, ExchangePtr exchange);

// What several of them share.
void respond_json(Exchange& exchange, const std::string& body);
// The body as an object; throws ApiError 400 or 415.
Json body_of(const Exchange& exchange);
// A generation for the model of this name, with the client's share and the deadline.
Generation new_generation(ServerContext& context, const Exchange& exchange, const std::string& model);

}  // namespace butterfly::server
