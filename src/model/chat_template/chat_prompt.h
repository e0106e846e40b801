// From messages to the tokens of a prompt: the model's own template, and control tokens that nothing in the
// messages can forge. `run`, `serve` and `train` all come through here, so a model is asked as it was taught.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/chat_template/chat_messages.h"
#include "model/chat_template/chat_template.h"
#include "model/chat_template/knows_tools.h"
#include "model/tokenizer/tokenizer.h"

namespace butterfly::model {

// For models without a template of their own, what most chat models of today were trained on:
// <|im_start|>role, the message, <|im_end|>.
extern const std::string_view kChatMl;

// A conversation as a request or a line of a training file has it. Borrows what it points at.
struct ChatRequest {
  const ChatJson* messages = nullptr;  // an array
  const ChatJson* tools = nullptr;     // an array, or null
  const ChatJson* extra = nullptr;     // an object with more variables (chat_template_kwargs), or null
  bool add_generation_prompt = true;   // false: the conversation is whole
  uint64_t quick_steps = 0;            // throws RenderingTakesLong after so many steps; 0: never
};

// One model's way to put a conversation into tokens. Borrows the tokenizer. Immutable: any thread may use it.
//
// The template's own words may become control tokens. Whatever the request brings (contents, names, tools,
// arguments, extra variables) may not, wherever the template puts it and whatever filters it passes: texts in
// the template carry their origin (text.h). Roles are words of the template's language, and count as its own.
class ChatPrompter {
 public:
  // `source` empty: the model has none, and ChatML stands in. A template that cannot be read is not an error
  // here but where it is used: the model may still be used without it.
  ChatPrompter(const Tokenizer& tokenizer, std::string source);

  // Throws Error if the template cannot be read, with what is wrong with it. So does render().
  void check_template() const;

  // Throws ChatInputError naming the message, or Error with the template's own words when it refuses.
  std::vector<int32_t> prompt(const ChatRequest& request) const { return encode(render(request)); }

  // The two steps of prompt(). encode() adds the beginning-of-text token as the model says, once, unless
  // `continues` another part of the same conversation.
  RenderedChat render(const ChatRequest& request) const;
  std::vector<int32_t> encode(const RenderedChat& chat, bool continues = false) const;

  const std::string& source() const { return source_; }
  bool own_template() const { return own_; }
  // The template lists tools for the model; else a system message teaches it to call them.
  bool knows_tools() const { return knows_tools_; }

 private:
  const Tokenizer& tokenizer_;
  std::string source_;
  bool own_ = false;
  std::optional<ChatTemplate> template_;
  std::string why_not_;  // it cannot be read
  bool knows_tools_ = false;
};

}  // namespace butterfly::model
