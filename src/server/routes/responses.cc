// POST /v1/responses: text and calls of functions; nothing is kept between requests.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "server/generation/pieces.h"
#include "server/generation/read_request.h"
#include "server/generation/responses_input.h"
#include "server/routes/resumable_answer.h"
#include "server/routes/routes.h"

namespace butterfly::server {
namespace {

constexpr std::string_view kIdPrefix = "resp_";

// OpenAI's object with all its keys, before there is an answer.
Json blank_response(const Json& body, const Fields& fields, const std::string& model, const std::string& id) {
  const auto as_sent = [&](const char* name, Json otherwise) {
    const Json* value = fields.find(name);
    return value != nullptr ? *value : otherwise;
  };
  Json format = {{"type", "text"}};
  if (const Json* text = fields.find("text"); text != nullptr && text->contains("format"))
    format = (*text)["format"];
  Json effort;
  if (const Json* reasoning = fields.find("reasoning")) effort = reasoning->value("effort", Json());
  return {{"id", id},
          {"object", "response"},
          {"created_at", 0},
          {"status", "in_progress"},
          {"background", false},
          {"error", nullptr},
          {"incomplete_details", nullptr},
          {"instructions", as_sent("instructions", nullptr)},
          {"max_output_tokens", as_sent("max_output_tokens", nullptr)},
          {"model", model},
          {"output", Json::array()},
          {"parallel_tool_calls", fields.boolean("parallel_tool_calls")},
          {"previous_response_id", nullptr},
          {"reasoning", {{"effort", std::move(effort)}, {"summary", nullptr}}},
          {"service_tier", "default"},
          {"store", false},
          {"temperature", fields.number("temperature")},
          {"text", {{"format", std::move(format)}}},
          {"tool_choice", as_sent("tool_choice", "auto")},
          {"tools", as_sent("tools", Json::array())},
          {"top_logprobs", fields.integer("top_logprobs")},
          {"top_p", fields.number("top_p")},
          {"truncation", "disabled"},
          {"usage", nullptr},
          {"user", body.value("user", Json())},
          {"metadata", as_sent("metadata", Json::object())}};
}

class ResponseAnswer final : public Answer {
 public:
  ResponseAnswer(ExchangePtr exchange, Generation generation, Json response, ResponseTools tools, bool stream)
      : Answer(std::move(exchange), std::move(generation), ErrorShape::kOpenAi),
        response_(std::move(response)),
        spaces_(std::move(tools.spaces)),
        stream_(stream),
        message_id_(part_id(this->generation(), "msg_")),
        reasoning_id_(part_id(this->generation(), "rs_")) {
    response_["created_at"] = created_;
  }

 private:
  void on_begin() override {
    if (!stream_) return;
    exchange().begin(sse_head(), std::string(kPing));
    event("response.created", {{"response", response_}});
    event("response.in_progress", {{"response", response_}});
  }

  void on_delta(Choice& choice, const ParsedText& delta,
                const std::vector<runtime::TokenEvent>& tokens) override {
    // Tokens of the text: not those of reasoning and calls.
    Json logprobs = Json::array();
    if (generation().request.logprobs && delta.reasoning.empty() && delta.calls.empty()) {
      logprobs = chat_logprobs(model().tokenizer(), tokens)["content"];
      for (const Json& entry : logprobs) logprobs_.push_back(entry);
    }
    if (!stream_) return;
    const std::string& text = delta.text;
    if (!delta.reasoning.empty()) stream_reasoning(delta.reasoning);
    if (reasoning_open_ && (!text.empty() || !delta.calls.empty())) close_reasoning(choice.reasoning);
    if (!text.empty()) {
      if (!message_open_) open_message();
      event("response.output_text.delta", {{"item_id", message_id_},
                                           {"output_index", message_index_},
                                           {"content_index", 0},
                                           {"delta", text},
                                           {"logprobs", std::move(logprobs)}});
    }
    for (const ToolCall& call : delta.calls) {
      if (message_open_) close_message(choice.text);
      const size_t index = outputs_++;
      Json item = call_item(call);
      const Json done = item;
      item["arguments"] = "";
      item["status"] = "in_progress";
      event("response.output_item.added", {{"output_index", index}, {"item", item}});
      event("response.function_call_arguments.delta",
            {{"item_id", item["id"]}, {"output_index", index}, {"delta", call.arguments}});
      event("response.function_call_arguments.done",
            {{"item_id", item["id"]}, {"output_index", index}, {"arguments", call.arguments}});
      event("response.output_item.done", {{"output_index", index}, {"item", done}});
    }
  }

  void on_complete() override {
    const Choice& choice = choices()[0];
    if (stream_) {
      if (reasoning_open_) close_reasoning(choice.reasoning);
      if (!message_open_ && choice.calls.empty()) open_message();
      if (message_open_) close_message(choice.text);
    }
    const bool whole = choice.finish_reason() != "length";
    response_["status"] = whole ? "completed" : "incomplete";
    if (!whole) response_["incomplete_details"] = {{"reason", "max_output_tokens"}};
    Json output = Json::array();
    if (!choice.reasoning.empty()) output.push_back(reasoning_item(choice.reasoning, "completed"));
    if (!choice.text.empty() || choice.calls.empty()) output.push_back(message_item(choice.text));
    for (const ToolCall& call : choice.calls) output.push_back(call_item(call));
    response_["output"] = std::move(output);
    const runtime::Usage u = usage();
    response_["usage"] = {{"input_tokens", u.prompt_tokens},
                          {"input_tokens_details", {{"cached_tokens", u.cached_tokens}}},
                          {"output_tokens", u.generated_tokens},
                          {"output_tokens_details", {{"reasoning_tokens", reasoning_tokens()}}},
                          {"total_tokens", u.prompt_tokens + u.generated_tokens}};
    if (!stream_) return respond_json(exchange(), to_text(response_));
    event(whole ? "response.completed" : "response.incomplete", {{"response", response_}});
    exchange().end();
  }

  void on_failure(const ApiError& error) override {
    if (!stream_) return Answer::on_failure(error);
    response_["status"] = "failed";
    response_["error"] = {{"code", "server_error"}, {"message", error.what()}};
    end_failed(exchange(), piece("response.failed", {{"response", response_}}));
  }

  void stream_reasoning(const std::string& text) {
    if (!reasoning_open_) {
      reasoning_open_ = true;
      reasoning_index_ = outputs_++;
      event("response.output_item.added",
            {{"output_index", reasoning_index_}, {"item", reasoning_item("", "in_progress")}});
    }
    event("response.reasoning_text.delta", {{"item_id", reasoning_id_},
                                            {"output_index", reasoning_index_},
                                            {"content_index", 0},
                                            {"delta", text}});
  }

  void close_reasoning(const std::string& text) {
    reasoning_open_ = false;
    event("response.reasoning_text.done", {{"item_id", reasoning_id_},
                                           {"output_index", reasoning_index_},
                                           {"content_index", 0},
                                           {"text", text}});
    event("response.output_item.done",
          {{"output_index", reasoning_index_}, {"item", reasoning_item(text, "completed")}});
  }

  Json reasoning_item(const std::string& text, const char* status) const {
    Json content = Json::array();
    if (!text.empty()) content.push_back({{"type", "reasoning_text"}, {"text", text}});
    return {{"type", "reasoning"},           {"id", reasoning_id_},          {"summary", Json::array()},
            {"content", std::move(content)}, {"encrypted_content", nullptr}, {"status", status}};
  }

  void open_message() {
    message_open_ = true;
    message_index_ = outputs_++;
    Json item = message_item("");
    item["content"] = Json::array();
    item["status"] = "in_progress";
    event("response.output_item.added", {{"output_index", message_index_}, {"item", item}});
    event("response.content_part.added", {{"item_id", message_id_},
                                          {"output_index", message_index_},
                                          {"content_index", 0},
                                          {"part", text_part("")}});
  }

  void close_message(const std::string& text) {
    message_open_ = false;
    event("response.output_text.done", {{"item_id", message_id_},
                                        {"output_index", message_index_},
                                        {"content_index", 0},
                                        {"text", text},
                                        {"logprobs", logprobs_}});
    event("response.content_part.done", {{"item_id", message_id_},
                                         {"output_index", message_index_},
                                         {"content_index", 0},
                                         {"part", text_part(text)}});
    event("response.output_item.done", {{"output_index", message_index_}, {"item", message_item(text)}});
  }

  Json text_part(const std::string& text) const {
    return {{"type", "output_text"},
            {"text", text},
            {"annotations", Json::array()},
            {"logprobs", text.empty() ? Json::array() : logprobs_}};
  }
  Json message_item(const std::string& text) const {
    return {{"type", "message"},
            {"id", message_id_},
            {"status", "completed"},
            {"role", "assistant"},
            {"content", Json::array({text_part(text)})}};
  }
  Json call_item(const ToolCall& call) const {
    Json item = {{"type", "function_call"},     {"id", "fc_" + call.id.substr(call.id.find('_') + 1)},
                 {"call_id", call.id},          {"name", call.name},
                 {"arguments", call.arguments}, {"status", "completed"}};
    if (const auto space = spaces_.find(call.name); space != spaces_.end()) {
      item["namespace"] = space->second.first;
      item["name"] = space->second.second;
    }
    return item;
  }

  std::string piece(std::string_view type, Json json) {
    Json whole = {{"type", type}, {"sequence_number", sequence_++}};
    whole.update(json);
    return sse_event(type, whole);
  }
  void event(std::string_view type, Json json) { exchange().write(piece(type, std::move(json))); }

  Json response_;
  const std::map<std::string, std::pair<std::string, std::string>> spaces_;  // ResponseTools::spaces
  const bool stream_;
  const std::string message_id_, reasoning_id_;
  bool message_open_ = false, reasoning_open_ = false;
  size_t message_index_ = 0, reasoning_index_ = 0, outputs_ = 0, sequence_ = 0;
  Json logprobs_ = Json::array();  // of the text's tokens, if they were asked for
};

// Refused, as events: where agents that stream look for the reason.
void stream_refusal(Exchange& exchange, Json response, const ApiError& error) {
  response["created_at"] = unix_seconds();
  exchange.begin(sse_head(), std::string(kPing));
  exchange.write(sse_event("response.created",
                           {{"type", "response.created"}, {"sequence_number", 0}, {"response", response}}));
  response["status"] = "failed";
  response["error"] = {{"code", error.code}, {"message", error.what()}};
  end_failed(exchange,
             sse_event("response.failed",
                       {{"type", "response.failed"}, {"sequence_number", 1}, {"response", response}}));
}

// An answer to nothing: nothing, and no work.
void answer_probe(Exchange& exchange, Json response, bool stream) {
  response["created_at"] = unix_seconds();
  const Json begun = response;
  response["status"] = "completed";
  response["usage"] = {{"input_tokens", 0},
                       {"input_tokens_details", {{"cached_tokens", 0}}},
                       {"output_tokens", 0},
                       {"output_tokens_details", {{"reasoning_tokens", 0}}},
                       {"total_tokens", 0}};
  if (!stream) return respond_json(exchange, to_text(response));
  exchange.begin(sse_head(), std::string(kPing));
  exchange.write(sse_event("response.created",
                           {{"type", "response.created"}, {"sequence_number", 0}, {"response", begun}}));
  exchange.write(sse_event("response.completed",
                           {{"type", "response.completed"}, {"sequence_number", 1}, {"response", response}}));
  exchange.end();
}

}  // namespace

void responses(ServerContext& context, ExchangePtr exchange) {
  const Json body = body_of(*exchange);
  const Fields fields(body, kResponseFields);
  if (!fields.string("previous_response_id").empty())
    nothing_is_kept("previous_response_id", "previous_response_not_found");
  if (fields.has("conversation")) nothing_is_kept("conversation", "conversation_not_found");
  if (fields.has("prompt")) nothing_is_kept("prompt", "prompt_not_found");
  if (fields.boolean("background"))
    bad_field("background", "not supported: the answer comes on the connection that asked for it",
              "unsupported_value");
  Generation generation = new_generation(context, *exchange, fields.string("model"));
  // Some clients ask with nothing to see whether anybody is there.
  if (const Json& input = *fields.find("input");
      input.is_string() ? input.get_ref<const std::string&>().empty() : input.is_array() && input.empty())
    return answer_probe(*exchange,
                        blank_response(body, fields, generation.model->name(), new_answer_id(kIdPrefix)),
                        fields.boolean("stream"));
  read_sampling(fields, generation);
  if (generation.n != 1) bad_field("n", "expected 1");
  if (const auto count = fields.maybe_integer("max_output_tokens"))
    generation.request.tokens_max = static_cast<size_t>(*count);
  generation.request.top_logprobs = static_cast<size_t>(fields.integer("top_logprobs"));
  const std::vector<std::string> include = fields.strings("include");
  generation.request.logprobs =
      generation.request.top_logprobs > 0 ||
      std::find(include.begin(), include.end(), "message.output_text.logprobs") != include.end();
  ResponseTools given = tools_of_response(fields.find("tools"));
  const ToolRequest tools =
      read_tools(&given.list, fields.find("tool_choice"), fields.boolean("parallel_tool_calls"));
  const Json* text = fields.find("text");
  const Json* format = text != nullptr && text->contains("format") ? &(*text)["format"] : nullptr;
  set_rules(read_rules(fields, format, "text.format"), tools, generation);
  const Json messages = messages_of_input(*fields.find("input"), fields.string("instructions"));
  model::ChatRequest conversation;
  conversation.messages = &messages;
  conversation.tools = tools.tools;
  Json extra = fields.has("chat_template_kwargs") ? *fields.find("chat_template_kwargs") : Json::object();
  ReasoningRequest reasoning;
  if (const Json* asked = fields.find("reasoning")) {
    const Json effort = asked->value("effort", Json());
    if (effort == Json("none") || effort == Json("minimal")) {
      if (!extra.contains("enable_thinking")) extra["enable_thinking"] = false;
    } else if (effort.is_string()) {
      extra["reasoning_effort"] = effort;
    }
  }
  conversation.extra = &extra;
  set_chat_prompt(conversation, reasoning, generation);
  Json again = body;
  again["seed"] = generation.request.sampling.seed;
  const bool stream = fields.boolean("stream");
  const ExchangePtr back =
      resumable(context, exchange, again, {.id_prefix = kIdPrefix, .stream = stream}, generation);
  const std::string name = generation.model->name(), id = answer_id(generation, kIdPrefix);
  try {
    start(context,
          std::make_shared<ResponseAnswer>(back, std::move(generation),
                                           blank_response(body, fields, name, id), std::move(given), stream),
          back, exchange);
  } catch (const ApiError& error) {
    if (!stream || error.code != kContextExceeded) throw;
    stream_refusal(*exchange, blank_response(body, fields, name, id), error);
  }
}

}  // namespace butterfly::server
