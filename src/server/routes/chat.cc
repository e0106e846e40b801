// POST /v1/chat/completions.
#include <nlohmann/json.hpp>

#include "server/generation/pieces.h"
#include "server/generation/read_request.h"
#include "server/routes/choices_answer.h"
#include "server/routes/resumable_answer.h"
#include "server/routes/routes.h"

namespace butterfly::server {
namespace {

constexpr ChoicesForm kForm = {"chatcmpl-", "chat.completion", "chat.completion.chunk"};

Json call_json(const ToolCall& call) {
  return {{"id", call.id},
          {"type", "function"},
          {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

class ChatAnswer final : public ChoicesAnswer {
 public:
  ChatAnswer(ExchangePtr exchange, Generation generation, const StreamOptions& options,
             std::string fingerprint)
      : ChoicesAnswer(std::move(exchange), std::move(generation), options, kForm, std::move(fingerprint)) {}

 private:
  void on_stream_begin() override {
    for (const Choice& choice : choices())
      send_delta(choice, {{"role", "assistant"}, {"content", ""}, {"refusal", nullptr}});
  }

  void on_delta(Choice& choice, const ParsedText& delta,
                const std::vector<runtime::TokenEvent>& tokens) override {
    if (!streams()) return;
    const bool logprobs = generation().request.logprobs;
    const std::vector<ToolCall>& calls = delta.calls;
    if (!delta.reasoning.empty()) send_delta(choice, {{"reasoning_content", delta.reasoning}});
    if (!delta.text.empty() || (logprobs && !tokens.empty()))
      send_delta(choice, {{"content", delta.text}},
                 logprobs ? chat_logprobs(model().tokenizer(), tokens) : Json());
    // A call in two pieces: who is called, then with what. Clients put arguments together themselves.
    size_t index = choice.calls.size() - calls.size();
    for (const ToolCall& call : calls) {
      Json begin = call_json(call);
      begin["index"] = index;
      begin["function"]["arguments"] = "";
      send_delta(choice, {{"tool_calls", Json::array({begin})}});
      send_delta(
          choice,
          {{"tool_calls", Json::array({{{"index", index}, {"function", {{"arguments", call.arguments}}}}})}});
      ++index;
    }
  }

  void on_choice_end(Choice& choice) override {
    if (streams()) send_delta(choice, Json::object(), nullptr, choice.finish_reason());
  }

  void send_delta(const Choice& choice, Json delta, Json logprobs = nullptr, Json finish_reason = nullptr) {
    send(choice, {{"delta", std::move(delta)}}, std::move(logprobs), std::move(finish_reason));
  }

  Json whole_choice(const Choice& choice) const override {
    Json message = {{"role", "assistant"},
                    {"content", choice.text},
                    {"refusal", nullptr},
                    {"annotations", Json::array()}};
    if (!choice.reasoning.empty()) message["reasoning_content"] = choice.reasoning;
    if (!choice.calls.empty()) {
      if (choice.text.empty()) message["content"] = nullptr;
      message["tool_calls"] = Json::array();
      for (const ToolCall& call : choice.calls) message["tool_calls"].push_back(call_json(call));
    }
    const bool logprobs = generation().request.logprobs;
    return {{"index", choice.index},
            {"message", std::move(message)},
            {"logprobs", logprobs ? chat_logprobs(model().tokenizer(), choice.tokens) : Json()},
            {"finish_reason", choice.finish_reason()}};
  }
};

}  // namespace

void chat_completions(ServerContext& context, ExchangePtr exchange) {
  const Json body = body_of(*exchange);
  const Fields fields(body, kChatFields);
  if (fields.has("functions"))
    bad_field("functions", "is the old form of tools: send tools, each a function");
  if (fields.has("function_call")) bad_field("function_call", "is the old form of tool_choice: send that");
  Generation generation = new_generation(context, *exchange, fields.string("model"));
  read_sampling(fields, generation);
  const ToolRequest tools =
      read_tools(fields.find("tools"), fields.find("tool_choice"), fields.boolean("parallel_tool_calls"));
  set_rules(read_rules(fields, fields.find("response_format"), "response_format"), tools, generation);
  model::ChatRequest conversation;
  conversation.messages = fields.find("messages");
  conversation.tools = tools.tools;
  Json extra = fields.has("chat_template_kwargs") ? *fields.find("chat_template_kwargs") : Json::object();
  const ReasoningRequest reasoning = read_reasoning(fields, extra);
  conversation.extra = &extra;
  set_chat_prompt(conversation, reasoning, generation);

  generation.request.top_logprobs = static_cast<size_t>(fields.integer("top_logprobs"));
  generation.request.logprobs = fields.boolean("logprobs");
  if (generation.request.top_logprobs > 0 && !generation.request.logprobs)
    bad_field("top_logprobs", "needs logprobs to be true");

  const StreamOptions options = read_stream_options(fields);
  Json again = body;
  again["seed"] = generation.request.sampling.seed;
  const ExchangePtr back = resumable(context, exchange, again,
                                     {.id_prefix = kForm.id_prefix, .stream = options.stream}, generation);
  start(context, std::make_shared<ChatAnswer>(back, std::move(generation), options, context.fingerprint),
        back, exchange);
}

}  // namespace butterfly::server
