// POST /v1/responses: text and calls of functions; nothing is kept between requests.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "server/generation/pieces.h"
#include "server/generation/read_request.h"
#include "server/routes/routes.h"

namespace butterfly::server {
namespace {

// OpenAI's object with all its keys, before there is an answer.
Json blank_response(const Json& body, const Fields& fields, const std::string& model) {
  const auto as_sent = [&](const char* name, Json otherwise) {
    const Json* value = fields.find(name);
    return value != nullptr ? *value : otherwise;
  };
  Json format = {{"type", "text"}};
  if (const Json* text = fields.find("text"); text != nullptr && text->contains("format"))
    format = (*text)["format"];
  return {{"id", new_answer_id("resp_")},
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
          {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
          {"service_tier", "default"},
          {"store", false},
          {"temperature", fields.number("temperature")},
          {"text", {{"format", std::move(format)}}},
          {"tool_choice", as_sent("tool_choice", "auto")},
          {"tools", as_sent("tools", Json::array())},
          {"top_p", fields.number("top_p")},
          {"truncation", "disabled"},
          {"usage", nullptr},
          {"user", body.value("user", Json())},
          {"metadata", as_sent("metadata", Json::object())}};
}

class ResponseAnswer final : public Answer {
 public:
  ResponseAnswer(ExchangePtr exchange, Generation generation, Json response, bool stream)
      : Answer(std::move(exchange), std::move(generation), ErrorShape::kOpenAi),
        response_(std::move(response)),
        stream_(stream),
        message_id_(new_answer_id("msg_")) {
    response_["created_at"] = created_;
  }

 private:
  void on_begin() override {
    if (!stream_) return;
    exchange().begin(sse_head(), std::string(kPing));
    event("response.created", {{"response", response_}});
    event("response.in_progress", {{"response", response_}});
  }

  void on_delta(Choice& choice, std::string_view text, const std::vector<ToolCall>& calls,
                const std::vector<runtime::TokenEvent>&) override {
    if (!stream_) return;
    if (!text.empty()) {
      if (!message_open_) open_message();
      event("response.output_text.delta", {{"item_id", message_id_},
                                           {"output_index", message_index_},
                                           {"content_index", 0},
                                           {"delta", text},
                                           {"logprobs", Json::array()}});
    }
    for (const ToolCall& call : calls) {
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
      if (!message_open_ && choice.calls.empty()) open_message();
      if (message_open_) close_message(choice.text);
    }
    const bool whole = choice.finish_reason() != "length";
    response_["status"] = whole ? "completed" : "incomplete";
    if (!whole) response_["incomplete_details"] = {{"reason", "max_output_tokens"}};
    Json output = Json::array();
    if (!choice.text.empty() || choice.calls.empty()) output.push_back(message_item(choice.text));
    for (const ToolCall& call : choice.calls) output.push_back(call_item(call));
    response_["output"] = std::move(output);
    const runtime::Usage u = usage();
    response_["usage"] = {{"input_tokens", u.prompt_tokens},
                          {"input_tokens_details", {{"cached_tokens", u.cached_tokens}}},
                          {"output_tokens", u.generated_tokens},
                          {"output_tokens_details", {{"reasoning_tokens", 0}}},
                          {"total_tokens", u.prompt_tokens + u.generated_tokens}};
    if (!stream_) return respond_json(exchange(), to_text(response_));
    event(whole ? "response.completed" : "response.incomplete", {{"response", response_}});
    exchange().end();
  }

  void on_failure(const ApiError& error) override {
    if (!stream_) return Answer::on_failure(error);
    response_["status"] = "failed";
    response_["error"] = {{"code", "server_error"}, {"message", error.what()}};
    event("response.failed", {{"response", response_}});
    exchange().end();
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
                                        {"logprobs", Json::array()}});
    event("response.content_part.done", {{"item_id", message_id_},
                                         {"output_index", message_index_},
                                         {"content_index", 0},
                                         {"part", text_part(text)}});
    event("response.output_item.done", {{"output_index", message_index_}, {"item", message_item(text)}});
  }

  static Json text_part(const std::string& text) {
    return {
        {"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
  }
  Json message_item(const std::string& text) const {
    return {{"type", "message"},
            {"id", message_id_},
            {"status", "completed"},
            {"role", "assistant"},
            {"content", Json::array({text_part(text)})}};
  }
  static Json call_item(const ToolCall& call) {
    return {{"type", "function_call"},     {"id", "fc_" + call.id.substr(call.id.find('_') + 1)},
            {"call_id", call.id},          {"name", call.name},
            {"arguments", call.arguments}, {"status", "completed"}};
  }

  void event(std::string_view type, Json json) {
    Json whole = {{"type", type}, {"sequence_number", sequence_++}};
    whole.update(json);
    exchange().write(sse_event(type, whole));
  }

  Json response_;
  const bool stream_;
  const std::string message_id_;
  bool message_open_ = false;
  size_t message_index_ = 0, outputs_ = 0, sequence_ = 0;
};

// "input" as messages of chat.
Json messages_of(const Json& input, const std::string& instructions) {
  Json messages = Json::array();
  if (!instructions.empty()) messages.push_back({{"role", "system"}, {"content", instructions}});
  if (input.is_string()) {
    messages.push_back({{"role", "user"}, {"content", input}});
    return messages;
  }
  if (!input.is_array() || input.empty()) bad_field("input", "expected a string or an array of messages");
  for (size_t i = 0; i < input.size(); ++i) {
    const Json& item = input[i];
    const std::string place = fmt::format("input[{}]", i);
    if (!item.is_object()) bad_field(place, "expected an object");
    const Json type = item.value("type", Json("message"));
    if (type == Json("message")) {
      messages.push_back(
          {{"role", item.value("role", Json())}, {"content", item.value("content", Json(""))}});
    } else if (type == Json("function_call")) {
      messages.push_back(
          {{"role", "assistant"},
           {"content", ""},
           {"tool_calls", Json::array({{{"id", item.value("call_id", Json(""))},
                                        {"type", "function"},
                                        {"function",
                                         {{"name", item.value("name", Json())},
                                          {"arguments", item.value("arguments", Json("{}"))}}}}})}});
    } else if (type == Json("function_call_output")) {
      messages.push_back({{"role", "tool"},
                          {"tool_call_id", item.value("call_id", Json(""))},
                          {"content", item.value("output", Json(""))}});
    } else {
      bad_field(place + ".type", "expected message, function_call or function_call_output");
    }
  }
  return messages;
}

// Functions lie flat here, and inside "function" in chat, which templates know.
Json chat_tools(const Json* tools) {
  Json list = Json::array();
  for (size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
    Json function = (*tools)[i];
    if (!function.is_object() || function.value("type", Json("function")) != Json("function"))
      bad_field(fmt::format("tools[{}].type", i), "only functions are supported");
    if (function.contains("function")) {
      list.push_back(std::move(function));
      continue;
    }
    function.erase("type");
    function.erase("strict");
    list.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return list;
}

}  // namespace

void responses(ServerContext& context, ExchangePtr exchange) {
  const Json body = body_of(*exchange);
  const Fields fields(body, kResponseFields);
  Generation generation = new_generation(context, *exchange, fields.string("model"));
  read_sampling(fields, generation);
  if (generation.n != 1) bad_field("n", "expected 1");
  if (const auto count = fields.maybe_integer("max_output_tokens"))
    generation.request.tokens_max = static_cast<size_t>(*count);
  const Json tool_list = chat_tools(fields.find("tools"));
  const ToolRequest tools =
      read_tools(&tool_list, fields.find("tool_choice"), fields.boolean("parallel_tool_calls"));
  const Json* text = fields.find("text");
  const Json* format = text != nullptr && text->contains("format") ? &(*text)["format"] : nullptr;
  set_rules(fields.string("grammar"), read_response_format(format, "text.format"), tools, generation);
  const Json messages = messages_of(*fields.find("input"), fields.string("instructions"));
  model::ChatRequest conversation;
  conversation.messages = &messages;
  conversation.tools = tools.tools;
  conversation.extra = fields.find("chat_template_kwargs");
  generation.prompts.push_back(chat_prompt(generation, conversation));
  Json response = blank_response(body, fields, generation.model->name());
  std::make_shared<ResponseAnswer>(std::move(exchange), std::move(generation), std::move(response),
                                   fields.boolean("stream"))
      ->start();
}

}  // namespace butterfly::server
