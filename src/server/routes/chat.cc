// POST /v1/chat/completions.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "server/generation/pieces.h"
#include "server/generation/read_request.h"
#include "server/routes/routes.h"

namespace butterfly::server {
namespace {

struct ChatOptions {
  bool stream = false;
  bool include_usage = false;
  std::string fingerprint;
};

Json call_json(const ToolCall& call) {
  return {{"id", call.id},
          {"type", "function"},
          {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

class ChatAnswer final : public Answer {
 public:
  ChatAnswer(ExchangePtr exchange, Generation generation, ChatOptions options)
      : Answer(std::move(exchange), std::move(generation), ErrorShape::kOpenAi),
        options_(std::move(options)),
        id_(new_answer_id("chatcmpl-")) {}

 private:
  void on_begin() override {
    if (!options_.stream) return;
    exchange().begin(sse_head(), std::string(kPing));
    for (const Choice& choice : choices())
      send(choice, {{"role", "assistant"}, {"content", ""}, {"refusal", nullptr}}, nullptr, nullptr);
  }

  void on_delta(Choice& choice, std::string_view text, const std::vector<ToolCall>& calls,
                const std::vector<runtime::TokenEvent>& tokens) override {
    if (!options_.stream) return;
    const bool logprobs = generation().request.logprobs;
    if (!text.empty() || (logprobs && !tokens.empty()))
      send(choice, {{"content", text}}, logprobs ? chat_logprobs(model().tokenizer(), tokens) : Json(),
           nullptr);
    // A call in two pieces: who is called, then with what. Clients put arguments together themselves.
    size_t index = choice.calls.size() - calls.size();
    for (const ToolCall& call : calls) {
      Json begin = call_json(call);
      begin["index"] = index;
      begin["function"]["arguments"] = "";
      send(choice, {{"tool_calls", Json::array({begin})}}, nullptr, nullptr);
      send(choice,
           {{"tool_calls", Json::array({{{"index", index}, {"function", {{"arguments", call.arguments}}}}})}},
           nullptr, nullptr);
      ++index;
    }
  }

  void on_choice_end(Choice& choice) override {
    if (options_.stream) send(choice, Json::object(), nullptr, choice.finish_reason());
  }

  void on_complete() override {
    if (!options_.stream) return respond_json(exchange(), to_text(whole()));
    end_stream(exchange(), options_.include_usage ? chunk_base() : Json(), usage());
  }

  void on_failure(const ApiError& error) override {
    if (!options_.stream) return Answer::on_failure(error);
    fail_stream(exchange(), error);
  }

  Json chunk_base() const {
    return {{"id", id_},
            {"object", "chat.completion.chunk"},
            {"created", created_},
            {"model", model().name()},
            {"system_fingerprint", options_.fingerprint}};
  }

  void send(const Choice& choice, Json delta, Json logprobs, Json finish_reason) {
    Json chunk = chunk_base();
    chunk["choices"] = Json::array({{{"index", choice.index},
                                     {"delta", std::move(delta)},
                                     {"logprobs", std::move(logprobs)},
                                     {"finish_reason", std::move(finish_reason)}}});
    if (options_.include_usage) chunk["usage"] = nullptr;
    exchange().write(sse_piece(chunk));
  }

  Json whole() {
    Json list = Json::array();
    for (const Choice& choice : choices()) {
      Json message = {{"role", "assistant"},
                      {"content", choice.text},
                      {"refusal", nullptr},
                      {"annotations", Json::array()}};
      if (!choice.calls.empty()) {
        if (choice.text.empty()) message["content"] = nullptr;
        message["tool_calls"] = Json::array();
        for (const ToolCall& call : choice.calls) message["tool_calls"].push_back(call_json(call));
      }
      const bool logprobs = generation().request.logprobs;
      list.push_back({{"index", choice.index},
                      {"message", std::move(message)},
                      {"logprobs", logprobs ? chat_logprobs(model().tokenizer(), choice.tokens) : Json()},
                      {"finish_reason", choice.finish_reason()}});
    }
    return {{"id", id_},
            {"object", "chat.completion"},
            {"created", created_},
            {"model", model().name()},
            {"choices", std::move(list)},
            {"usage", usage_json(usage())},
            {"system_fingerprint", options_.fingerprint}};
  }

  const ChatOptions options_;
  const std::string id_;
};

}  // namespace

void chat_completions(ServerContext& context, ExchangePtr exchange) {
  const Json body = body_of(*exchange);
  const Fields fields(body, kChatFields);
  Generation generation = new_generation(context, *exchange, fields.string("model"));
  read_sampling(fields, generation);
  const ToolRequest tools =
      read_tools(fields.find("tools"), fields.find("tool_choice"), fields.boolean("parallel_tool_calls"));
  set_rules(fields.string("grammar"), read_response_format(fields.find("response_format"), "response_format"),
            tools, generation);
  ChatPrompter::Request conversation;
  conversation.messages = fields.find("messages");
  conversation.tools = tools.tools;
  conversation.extra = fields.find("chat_template_kwargs");
  conversation.reasoning_effort = fields.string("reasoning_effort");
  generation.prompts.push_back(generation.model->prompter().render(conversation));

  generation.request.top_logprobs = static_cast<size_t>(fields.integer("top_logprobs"));
  generation.request.logprobs = fields.boolean("logprobs");
  if (generation.request.top_logprobs > 0 && !generation.request.logprobs)
    bad_field("top_logprobs", "needs logprobs to be true");

  ChatOptions options;
  options.stream = fields.boolean("stream");
  if (const Json* wanted = fields.find("stream_options")) {
    if (!options.stream) bad_field("stream_options", "needs stream to be true");
    options.include_usage = wanted->value("include_usage", Json(false)) == Json(true);
  }
  options.fingerprint = context.fingerprint;
  std::make_shared<ChatAnswer>(std::move(exchange), std::move(generation), std::move(options))->start();
}

}  // namespace butterfly::server
