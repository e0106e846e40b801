#include "server/routes/route_table.h"

#include "server/routes/routes.h"

namespace butterfly::server {
namespace {

constexpr Route kRoutes[] = {
    {"GET", "/v1/models", kQuick, list_models, "the models"},
    {"GET", "/v1/models/{id}", kQuick, show_model, "one of them"},
    {"POST", "/v1/chat/completions", kPlain, chat_completions, "an answer to a conversation"},
    {"POST", "/v1/completions", kPlain, completions, "a text goes on"},
    {"GET", "/v1/streams", kQuick, resume_stream, "the rest of a stream whose connection was lost"},
    {"POST", "/v1/embeddings", kPlain, embeddings, "texts as vectors"},
    {"POST", "/v1/responses", kPlain, responses, "an answer, in OpenAI's newer form"},
    {"POST", "/v1/messages", kAnthropicShape, messages, "an answer, in Anthropic's form"},
    {"POST", "/v1/messages/count_tokens", kAnthropicShape, count_message_tokens, "how long its prompt is"},
    {"POST", "/v1/files", kPlain, upload_file, "a file to learn from (--fine-tuning)"},
    {"GET", "/v1/files", kPlain, list_files, "your files"},
    {"GET", "/v1/files/{id}", kPlain, show_file, "one of them; with /content behind it: what is in it"},
    {"DELETE", "/v1/files/{id}", kPlain, delete_file, "it is gone"},
    {"POST", "/v1/fine_tuning/jobs", kPlain, create_fine_tuning, "an adapter that learns from a file"},
    {"GET", "/v1/fine_tuning/jobs", kPlain, list_fine_tuning, "your jobs"},
    {"GET", "/v1/fine_tuning/jobs/{id}", kPlain, show_fine_tuning,
     "one of them; with /events or /checkpoints behind it: those"},
    {"POST", "/v1/fine_tuning/jobs/{id}", kPlain, change_fine_tuning, "with /cancel behind it: it ends"},
    {"DELETE", "/v1/models/{id}", kPlain, delete_model, "a model that one of your jobs made is gone"},
    {"GET", "/health", kPublic | kQuick, health, "200 if requests are worked on, 503 with the reason if not"},
    {"GET", "/metrics", kQuick, metrics, "counters for Prometheus"},
    {"POST", "/tokenize", kPlain, tokenize, "a text as token ids"},
    {"POST", "/detokenize", kPlain, detokenize, "token ids as text"},
    {"GET", "/props", kQuick, llama_props, "the first model, its context and template"},
    {"GET", "/slots", kQuick, llama_slots, "how many requests are at work"},
    {"POST", "/apply-template", kPlain, llama_apply_template, "a conversation as the text of its prompt"},
    {"POST", "/completion", kPlain, llama_completion, "a text goes on, in llama.cpp's own form"},
    {"POST", "/infill", kPlain, llama_infill, "the middle of a text"},
    {"POST", "/rerank", kPlain, rerank, "texts in the order in which they answer a question"},
    {"POST", "/v1/rerank", kPlain, rerank, "the same"},
    {"POST", "/reranking", kPlain, rerank, "the same, by a name of llama.cpp's server"},
    {"POST", "/v1/reranking", kPlain, rerank, "the same"},
    {"GET", "/", kPublic | kQuick, page_root, "the page, for browsers; else a word that something runs here"},
    {"GET", "/page/{file}", kPublic | kQuick, page_file, "its parts"},
    {"GET", "/api/version", kQuick | kOllamaShape, ollama_version, "version"},
    {"GET", "/api/tags", kQuick | kOllamaShape, ollama_tags, "the models"},
    {"GET", "/api/ps", kQuick | kOllamaShape, ollama_ps, "the models in memory"},
    {"POST", "/api/show", kOllamaShape, ollama_show, "about a model"},
    {"POST", "/api/chat", kOllamaShape, ollama_chat, "an answer to a conversation"},
    {"POST", "/api/generate", kOllamaShape, ollama_generate, "an answer to a prompt"},
    {"POST", "/api/embed", kOllamaShape, ollama_embed, "texts as vectors"},
    {"POST", "/api/embeddings", kOllamaShape, ollama_embeddings, "one text as a vector, by its old name"},
    {"POST", "/api/pull", kOllamaShape, ollama_pull, "success for a model that is here; nothing is fetched"},
    {"POST", "/api/create", kOllamaShape, ollama_no_store, "refused: models are given at the start"},
    {"POST", "/api/copy", kOllamaShape, ollama_no_store, "refused"},
    {"POST", "/api/push", kOllamaShape, ollama_no_store, "refused"},
    {"DELETE", "/api/delete", kOllamaShape, ollama_no_store, "refused"},
    {"GET", "/cluster", kQuick, cluster_status, "nodes, stages, links and events of the cluster"},
    {"GET", "/cluster/events", kQuick, cluster_events, "events as they happen (SSE)"},
    {"POST", "/cluster/remove", kOperator, cluster_remove, "take a node out of the cluster"},
    {"POST", "/cluster/token", kOperator, cluster_token, "a line that lets a machine join"},
    {"GET", "/cluster/load", kQuick, cluster_load, "how busy the nodes were in the last hour"},
    {"POST", "/cluster/drain", kOperator, cluster_drain, "move a node's parts to others"},
    {"POST", "/cluster/resume", kOperator, cluster_resume, "use a drained node again"},
    {"GET", "/training", kQuick, training_status, "how the runs that --training names stand"},
    {"GET", "/manage/cluster", kManagement | kQuick, cluster_status, "the same"},
    {"GET", "/manage/cluster/events", kManagement | kQuick, cluster_events, "the same"},
    {"GET", "/manage/cluster/load", kManagement | kQuick, cluster_load, "the same"},
    {"POST", "/manage/cluster/remove", kManagement, cluster_remove, "take a node out of the cluster"},
    {"POST", "/manage/cluster/drain", kManagement, cluster_drain, "move a node's parts to others"},
    {"POST", "/manage/cluster/resume", kManagement, cluster_resume, "use a drained node again"},
    {"GET", "/manage/ps", kManagement | kQuick, manage_ps, "models, requests, memory"},
    {"POST", "/manage/stop", kManagement | kQuick, manage_stop, "drain and end"},
    {"POST", "/manage/load", kManagement, manage_load, "load a model"},
    {"POST", "/manage/unload", kManagement, manage_unload, "unload an idle model"},
};

bool matches(const Route& route, std::string_view path) {
  const size_t open = route.path.find('{');
  if (open == std::string_view::npos) return path == route.path;
  return path.size() > open && path.starts_with(route.path.substr(0, open));
}

}  // namespace

std::span<const Route> route_table() { return kRoutes; }

RouteMatch find_route(std::string_view method, std::string_view path, Door door) {
  RouteMatch match;
  const std::string_view wanted = method == "HEAD" ? "GET" : method;
  for (const Route& route : kRoutes) {
    if (((route.flags & kManagement) != 0 && door != Door::kManagement) || !matches(route, path)) continue;
    match.path_known = true;
    if (route.method == wanted) {
      match.route = &route;
      return match;
    }
    match.allowed += (match.allowed.empty() ? "" : ", ") + std::string(route.method);
    if (route.method == "GET") match.allowed += ", HEAD";
  }
  return match;
}

std::string path_parameter(const Route& route, std::string_view path) {
  return std::string(path.substr(route.path.find('{')));
}

}  // namespace butterfly::server
