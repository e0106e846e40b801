// Ollama's POST /api/chat and /api/generate: one JSON object per line, streamed unless refused.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "server/generation/pieces.h"
#include "server/generation/read_request.h"
#include "server/routes/resumable_answer.h"
#include "server/routes/routes.h"

namespace butterfly::server {
namespace {

class OllamaAnswer final : public Answer {
 public:
  OllamaAnswer(ExchangePtr exchange, Generation generation, bool stream, bool chat)
      : Answer(std::move(exchange), std::move(generation), ErrorShape::kOllama),
        stream_(stream),
        chat_(chat) {}

 private:
  void on_begin() override {
    if (stream_) exchange().begin(ndjson_head(), "");  // a line of its own would break readers: no pings
  }

  void on_delta(Choice&, const ParsedText& delta, const std::vector<runtime::TokenEvent>&) override {
    if (!stream_) return;
    Json line = piece(delta);
    line["done"] = false;
    exchange().write(to_text(line) + "\n");
  }

  void on_complete() override {
    const Choice& choice = choices()[0];
    Json last = piece(stream_ ? ParsedText{} : ParsedText{choice.reasoning, choice.text, choice.calls});
    const runtime::FinishEvent& finish = choice.finish;
    const Duration prompt_time = finish.timings.first_token - finish.timings.queued;
    last["done_reason"] = choice.finish_reason() == "length" ? "length" : "stop";
    last["done"] = true;
    last["total_duration"] = finish.timings.total.count();
    last["load_duration"] = 0;
    last["prompt_eval_count"] = finish.usage.prompt_tokens;
    last["prompt_eval_duration"] = prompt_time.count();
    last["eval_count"] = finish.usage.generated_tokens;
    last["eval_duration"] = (finish.timings.total - finish.timings.first_token).count();
    if (!stream_) return respond_json(exchange(), to_text(last));
    exchange().write(to_text(last) + "\n");
    exchange().end();
  }

  void on_failure(const ApiError& error) override {
    if (!stream_) return Answer::on_failure(error);
    end_failed(exchange(), error_body(error, ErrorShape::kOllama) + "\n");
  }

  Json piece(const ParsedText& delta) const {
    Json json = {
        {"model", model().name()},
        {"created_at",
         generation().identity ? rfc3339(std::chrono::system_clock::from_time_t(created_)) : rfc3339_now()}};
    if (!chat_) {
      json["response"] = delta.text;
      if (!delta.reasoning.empty()) json["thinking"] = delta.reasoning;
      return json;
    }
    json["message"] = {{"role", "assistant"}, {"content", delta.text}};
    if (!delta.reasoning.empty()) json["message"]["thinking"] = delta.reasoning;
    for (const ToolCall& call : delta.calls)
      json["message"]["tool_calls"].push_back(
          {{"function", {{"name", call.name}, {"arguments", json_of_text_or_none<Json>(call.arguments)}}}});
    return json;
  }

  const bool stream_, chat_;
};

// How Ollama is asked to load a model, or with "keep_alive": 0 to let it go. Who may talk to a server with
// keys may not take a model away from others.
void answer_nothing(ServerContext& context, Exchange& exchange, const Fields& fields, Generation generation,
                    bool chat) {
  const std::string name = generation.model->name();
  const Json* keep = fields.find("keep_alive");
  const bool leave = keep != nullptr && (*keep == Json(0) || *keep == Json("0") || *keep == Json("0s"));
  generation = {};  // or it would be in use
  const bool gone = leave && !context.access.needs_key() && context.models->unload(name);
  Json json = {{"model", name}, {"created_at", rfc3339_now()}};
  if (chat) {
    json["message"] = {{"role", "assistant"}, {"content", ""}};
  } else {
    json["response"] = "";
  }
  json["done_reason"] = gone ? "unload" : "load";
  json["done"] = true;
  respond_json(exchange, to_text(json));
}

// "think" as templates know it.
Json template_variables(const Fields& fields) {
  Json extra = Json::object();
  const Json* think = fields.find("think");
  if (think == nullptr) return extra;
  if (think->is_boolean()) {
    extra["enable_thinking"] = *think;
  } else if (think->is_string()) {
    extra["enable_thinking"] = true;
    extra["reasoning_effort"] = *think;
  } else {
    bad_field("think", "expected true, false, or how much: low, medium or high");
  }
  return extra;
}

// Beside the content here, where templates would not see them.
void refuse_images(const Json& messages) {
  for (size_t i = 0; i < messages.size(); ++i) {
    const Json images = messages[i].is_object() ? messages[i].value("images", Json()) : Json();
    if (images.is_array() && !images.empty())
      bad_field(fmt::format("messages[{}].images", i), "not supported: only text is", "unsupported_content");
  }
}

void answer(ServerContext& context, const ExchangePtr& exchange, const Json& body, const Fields& fields,
            Generation generation, bool chat) {
  Json again = body;
  if (!again.contains("options") || !again["options"].is_object()) again["options"] = Json::object();
  again["options"]["seed"] = generation.request.sampling.seed;
  const bool stream = fields.boolean("stream");
  const ExchangePtr back =
      resumable(context, exchange, again, {.id_prefix = "api-", .stream = stream, .lines = true}, generation);
  start(context, std::make_shared<OllamaAnswer>(back, std::move(generation), stream, chat), back, exchange);
}

}  // namespace

void ollama_chat(ServerContext& context, ExchangePtr exchange) {
  const Json body = body_of(*exchange);
  const Fields fields(body, kOllamaChatFields);
  Generation generation = new_generation(context, *exchange, fields.string("model"));
  const Json* messages = fields.find("messages");
  if (messages->empty()) return answer_nothing(context, *exchange, fields, std::move(generation), true);
  refuse_images(*messages);
  const std::string grammar = read_ollama_options(fields.find("options"), generation);
  const ToolRequest tools = read_tools(fields.find("tools"), nullptr, true);
  set_rules(read_ollama_rules(fields.find("format"), grammar), tools, generation);
  const Json extra = template_variables(fields);
  model::ChatRequest conversation;
  conversation.messages = messages;
  conversation.tools = tools.tools;
  conversation.extra = &extra;
  set_chat_prompt(conversation, {}, generation);
  answer(context, exchange, body, fields, std::move(generation), true);
}

void ollama_generate(ServerContext& context, ExchangePtr exchange) {
  const Json body = body_of(*exchange);
  const Fields fields(body, kOllamaGenerateFields);
  Generation generation = new_generation(context, *exchange, fields.string("model"));
  const std::string prompt = fields.string("prompt");
  if (prompt.empty()) return answer_nothing(context, *exchange, fields, std::move(generation), false);
  const std::string grammar = read_ollama_options(fields.find("options"), generation);
  set_rules(read_ollama_rules(fields.find("format"), grammar), {}, generation);
  if (fields.boolean("raw") || !generation.model->prompter().own_template()) {
    generation.prompts = read_prompts(Json(prompt), "prompt", 1, generation.model->tokenizer());
  } else {
    Json messages = Json::array();
    if (fields.has("system")) messages.push_back({{"role", "system"}, {"content", fields.string("system")}});
    messages.push_back({{"role", "user"}, {"content", prompt}});
    const Json extra = template_variables(fields);
    model::ChatRequest conversation;
    conversation.messages = &messages;
    conversation.extra = &extra;
    set_chat_prompt(conversation, {}, generation);
  }
  answer(context, exchange, body, fields, std::move(generation), false);
}

}  // namespace butterfly::server
