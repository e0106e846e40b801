// Anthropic's POST /v1/messages and /v1/messages/count_tokens.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/sha256.h"
#include "server/generation/anthropic_input.h"
#include "server/generation/pieces.h"
#include "server/generation/read_request.h"
#include "server/routes/resumable_answer.h"
#include "server/routes/routes.h"

namespace butterfly::server {
namespace {

constexpr std::string_view kIdPrefix = "msg_";
constexpr std::string_view kPingEvent = "event: ping\ndata: {\"type\": \"ping\"}\n\n";

// Their ids begin so; what a template needs otherwise (nine letters) stays as it is.
std::string use_id(const std::string& id) {
  constexpr std::string_view kOurs = "call_";
  return id.starts_with(kOurs) ? "toolu_" + id.substr(kOurs.size()) : id;
}

Json usage_of(const runtime::Usage& usage) {
  return {{"input_tokens", usage.prompt_tokens - usage.cached_tokens},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", usage.cached_tokens},
          {"output_tokens", usage.generated_tokens}};
}

// Whole, or as a stream: message_start; for each block its start, its deltas and its stop; message_delta with
// the reason and the counts; message_stop.
class MessageAnswer final : public Answer {
 public:
  MessageAnswer(ExchangePtr exchange, Generation generation, bool stream, bool show_thinking)
      : Answer(std::move(exchange), std::move(generation), ErrorShape::kAnthropic),
        stream_(stream),
        show_thinking_(show_thinking),
        id_(answer_id(this->generation(), kIdPrefix)) {}

 private:
  enum class Block { kNone, kThinking, kText };

  void on_begin() override {
    if (!stream_) return;
    exchange().begin(sse_head(), std::string(kPingEvent));
    runtime::Usage begun;
    begun.prompt_tokens = generation().prompts[0].size();
    event("message_start", {{"message", message(Json::array(), nullptr, nullptr, usage_of(begun))}});
  }

  void on_delta(Choice&, const ParsedText& delta, const std::vector<runtime::TokenEvent>&) override {
    if (!stream_) return;
    if (!delta.reasoning.empty() && show_thinking_) {
      open(Block::kThinking);
      thinking_ += delta.reasoning;
      block_delta({{"type", "thinking_delta"}, {"thinking", delta.reasoning}});
    }
    if (!delta.text.empty()) {
      open(Block::kText);
      block_delta({{"type", "text_delta"}, {"text", delta.text}});
    }
    for (const ToolCall& call : delta.calls) {
      close();
      Json block = tool_use(call);
      block["input"] = Json::object();
      event("content_block_start", {{"index", index_}, {"content_block", std::move(block)}});
      block_delta({{"type", "input_json_delta"}, {"partial_json", ""}});
      block_delta({{"type", "input_json_delta"}, {"partial_json", call.arguments}});
      event("content_block_stop", {{"index", index_++}});
    }
  }

  void on_complete() override {
    const Choice& choice = choices()[0];
    const auto [reason, sequence] = stop_of(choice);
    if (!stream_) {
      Json content = Json::array();
      if (!choice.reasoning.empty() && show_thinking_) content.push_back(thinking_block(choice.reasoning));
      if (!choice.text.empty() || (choice.calls.empty() && content.empty()))
        content.push_back({{"type", "text"}, {"text", choice.text}});
      for (const ToolCall& call : choice.calls) content.push_back(tool_use(call));
      HttpResponse response;
      response.body = to_text(message(std::move(content), reason, sequence, usage_of(usage())));
      response.fields.emplace_back("request-id", exchange().id());
      return exchange().respond(std::move(response));
    }
    // A message without any block is not one that clients expect.
    if (index_ == 0 && block_ == Block::kNone) open(Block::kText);
    close();
    event("message_delta",
          {{"delta", {{"stop_reason", reason}, {"stop_sequence", sequence}}}, {"usage", usage_of(usage())}});
    event("message_stop", Json::object());
    exchange().end();
  }

  void on_failure(const ApiError& error) override {
    if (!stream_) return Answer::on_failure(error);
    end_failed(exchange(), "event: error\ndata: " + error_body(error, ErrorShape::kAnthropic) + "\n\n");
  }

  // Opens a block of this kind, if it is not the one that is open.
  void open(Block block) {
    if (block_ == block) return;
    close();
    block_ = block;
    const Json begin = block == Block::kText
                           ? Json{{"type", "text"}, {"text", ""}}
                           : Json{{"type", "thinking"}, {"thinking", ""}, {"signature", ""}};
    event("content_block_start", {{"index", index_}, {"content_block", begin}});
  }

  void close() {
    if (block_ == Block::kNone) return;
    if (block_ == Block::kThinking)
      block_delta({{"type", "signature_delta"}, {"signature", signature(std::exchange(thinking_, {}))}});
    event("content_block_stop", {{"index", index_++}});
    block_ = Block::kNone;
  }

  void block_delta(Json delta) {
    event("content_block_delta", {{"index", index_}, {"delta", std::move(delta)}});
  }

  void event(std::string_view type, Json keys) {
    Json whole = {{"type", type}};
    whole.update(keys);
    exchange().write(sse_event(type, whole));
  }

  Json message(Json content, Json reason, Json sequence, Json counts) const {
    return {{"id", id_},
            {"type", "message"},
            {"role", "assistant"},
            {"model", model().name()},
            {"content", std::move(content)},
            {"stop_reason", std::move(reason)},
            {"stop_sequence", std::move(sequence)},
            {"usage", std::move(counts)}};
  }

  static std::pair<Json, Json> stop_of(const Choice& choice) {
    if (!choice.calls.empty()) return {"tool_use", nullptr};
    if (choice.finish.reason == runtime::FinishReason::kStopString)
      return {"stop_sequence", choice.finish.stop};
    return {choice.finish_reason() == "length" ? "max_tokens" : "end_turn", nullptr};
  }

  static Json tool_use(const ToolCall& call) {
    return {{"type", "tool_use"},
            {"id", use_id(call.id)},
            {"name", call.name},
            {"input", json_of_text_or_none<Json>(call.arguments)}};
  }

  // Clients give it back with the block; nothing here depends on it.
  static std::string signature(const std::string& text) { return sha256_hex(text); }
  static Json thinking_block(const std::string& text) {
    return {{"type", "thinking"}, {"thinking", text}, {"signature", signature(text)}};
  }

  const bool stream_, show_thinking_;
  const std::string id_;
  Block block_ = Block::kNone;
  size_t index_ = 0;  // of the block that is open, or the next one
  std::string thinking_;
};

struct Thinking {
  bool wanted = false;
  ReasoningRequest reasoning;
};

// "thinking": {"type": "enabled", "budget_tokens": n}, "adaptive" or "disabled"; absent is the last.
Thinking read_thinking(const Fields& fields, Json& extra) {
  Thinking thinking;
  if (const Json* asked = fields.find("thinking")) {
    const Json type = asked->value("type", Json());
    if (type != Json("enabled") && type != Json("disabled") && type != Json("adaptive"))
      bad_field("thinking.type", "expected enabled, adaptive or disabled");
    thinking.wanted = type != Json("disabled");
    if (const Json budget = asked->value("budget_tokens", Json()); !budget.is_null()) {
      if (!budget.is_number_integer() || budget.get<int64_t>() < 1)
        bad_field("thinking.budget_tokens", "expected a positive integer");
      thinking.reasoning.tokens_max = budget.get<size_t>();
    }
  }
  if (!extra.contains("enable_thinking")) extra["enable_thinking"] = thinking.wanted;
  return thinking;
}

// What both routes read: the conversation, which `extra` and the two lists must outlive.
struct Conversation {
  Json messages, tools, extra;
  Thinking thinking;
  model::ChatRequest request;
};

void read_conversation(const Fields& fields, Conversation& to) {
  to.messages = chat_messages_of(fields.find("system"), *fields.find("messages"));
  to.tools = chat_tools_of(fields.find("tools"));
  to.extra = fields.has("chat_template_kwargs") ? *fields.find("chat_template_kwargs") : Json::object();
  to.thinking = read_thinking(fields, to.extra);
  to.request.messages = &to.messages;
  to.request.tools = to.tools.empty() ? nullptr : &to.tools;
  to.request.extra = &to.extra;
}

}  // namespace

void messages(ServerContext& context, ExchangePtr exchange) {
  const Json body = body_of(*exchange);
  const Fields fields(body, kMessageFields);
  Generation generation = new_generation(context, *exchange, fields.string("model"));
  read_sampling(fields, generation);
  if (generation.n != 1) bad_field("n", "expected 1");
  if (fields.has("stop_sequences")) add_stops(fields.strings("stop_sequences"), "stop_sequences", generation);
  Conversation conversation;
  read_conversation(fields, conversation);
  const Json choice = chat_tool_choice_of(fields.find("tool_choice"));
  const Json* asked = fields.find("tool_choice");
  const bool parallel =
      asked == nullptr || asked->value("disable_parallel_tool_use", Json(false)) != Json(true);
  const ToolRequest tools = read_tools(&conversation.tools, choice.is_null() ? nullptr : &choice, parallel);
  conversation.request.tools = tools.tools;
  // {"format": {"type": "json_schema", "schema": ...}}, and the same without the wrapper.
  const Json* config = fields.find("output_config");
  const Json* format = fields.find("output_format");
  if (config != nullptr && config->contains("format") && (*config)["format"].is_object())
    format = &(*config)["format"];
  set_rules(read_rules(fields, format, "output_format"), tools, generation);
  set_chat_prompt(conversation.request, conversation.thinking.reasoning, generation);
  Json again = body;
  again["seed"] = generation.request.sampling.seed;
  const bool stream = fields.boolean("stream");
  const ExchangePtr back =
      resumable(context, exchange, again, {.id_prefix = kIdPrefix, .stream = stream}, generation);
  start(context,
        std::make_shared<MessageAnswer>(back, std::move(generation), stream, conversation.thinking.wanted),
        back, exchange);
}

void count_message_tokens(ServerContext& context, ExchangePtr exchange) {
  const Json body = body_of(*exchange);
  const Fields fields(body, kMessageCountFields);
  Generation generation = new_generation(context, *exchange, fields.string("model"));
  Conversation conversation;
  read_conversation(fields, conversation);
  set_chat_prompt(conversation.request, {}, generation);
  respond_json(*exchange, to_text({{"input_tokens", generation.prompts[0].size()}}));
}

}  // namespace butterfly::server
