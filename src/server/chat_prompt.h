// From messages to the tokens of a prompt: the model's own template, and control tokens that users cannot
// forge.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/chat_template/chat_template.h"
#include "model/tokenizer/token_matcher.h"
#include "model/tokenizer/tokenizer.h"
#include "server/api/json.h"

namespace butterfly::server {

// How a model writes down that it wants a function called.
enum class ToolStyle {
  kHermes,   // <tool_call>{"name": ..., "arguments": {...}}</tool_call>
  kMistral,  // [TOOL_CALLS][{"name": ..., "arguments": {...}}, ...]
  kLlama3,   // the whole answer is {"name": ..., "parameters": {...}}, perhaps behind <|python_tag|>
  kGeneric,  // hermes, taught by a system message: the template knows nothing of tools
};
std::string_view tool_style_name(ToolStyle format);
ToolStyle tool_style_of(std::string_view template_source);

// One model's way to put a conversation into tokens. Immutable: any thread may use it.
class ChatPrompter {
 public:
  // `source` empty: the model has none, and ChatML stands in. Borrows the tokenizer. A template that cannot
  // be read is not an error here but in render(): the model may still be used without it.
  ChatPrompter(const model::Tokenizer& tokenizer, std::string source);

  struct Request {
    const Json* messages = nullptr;  // an array, as in the API; each message is checked
    const Json* tools = nullptr;     // an array, or null
    const Json* extra = nullptr;     // an object with more variables, or null
    std::string reasoning_effort;
  };
  // Throws ApiError 400 naming the message, or with the template's own words when it refuses.
  std::vector<int32_t> render(const Request& request) const;
  // The text, for people and tests; control tokens in contents are marked (see forge_proof()).
  std::string text(const Request& request) const;

  const std::string& source() const { return source_; }
  bool own_template() const { return own_; }
  ToolStyle tool_style() const { return tool_style_; }

  // What a user typed, with an invisible mark inside everything that reads like a control token. encode()
  // takes the marks out and reads those places as plain text.
  std::string forge_proof(std::string_view text) const;
  std::vector<int32_t> encode(std::string_view marked) const;

 private:
  Json checked_messages(const Request& request) const;

  const model::Tokenizer& tokenizer_;
  std::string source_;
  bool own_ = false;
  std::optional<model::ChatTemplate> template_;
  std::string why_not_;  // it cannot be read
  ToolStyle tool_style_;
  model::TokenMatcher control_;
};

}  // namespace butterfly::server
