#include "model/chat_template/chat_prompt.h"

#include <nlohmann/json.hpp>

#include "base/json_text.h"

namespace butterfly::model {

const std::string_view kChatMl =
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% "
    "endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

namespace {

// Extra variables add to what the program sets; they do not replace it.
void check_extra(const ChatJson& extra) {
  constexpr const char* kField = "chat_template_kwargs";
  if (!extra.is_object()) throw ChatInputError(kField, "expected an object");
  for (const auto& [name, value] : extra.items())
    if (is_set_by_program(name))
      throw ChatInputError(kField,
                           fmt::format("'{}' cannot be replaced here: it comes from the request's own "
                                       "fields and the model",
                                       name));
}

}  // namespace

ChatPrompter::ChatPrompter(const Tokenizer& tokenizer, std::string source)
    : tokenizer_(tokenizer), source_(std::move(source)), own_(!source_.empty()) {
  if (!own_) source_ = kChatMl;
  knows_tools_ = model::knows_tools(source_);
  try {
    template_.emplace(ChatTemplate::compile(source_));
  } catch (const Error& error) {
    why_not_ = error.what();
  }
}

void ChatPrompter::check_template() const {
  if (!template_) fail(Errc::kInvalidArgument, "the model's chat template cannot be used: {}", why_not_);
}

RenderedChat ChatPrompter::render(const ChatRequest& request) const {
  check_template();
  if (request.extra != nullptr) check_extra(*request.extra);
  ChatJson messages = checked_messages(*request.messages);
  const bool tools = request.tools != nullptr && !request.tools->empty();
  if (!knows_tools_) spell_out_tools(messages, request.tools);
  ChatTemplateOptions options;
  options.add_generation_prompt = request.add_generation_prompt;
  options.quick_steps = request.quick_steps;
  if (tokenizer_.bos()) options.bos_token = tokenizer_.token_text(*tokenizer_.bos());
  if (tokenizer_.eos()) options.eos_token = tokenizer_.token_text(*tokenizer_.eos());
  if (request.extra != nullptr) options.extra_json = json_text(*request.extra);
  return template_->render(json_text(messages), tools ? json_text(*request.tools) : "", options);
}

std::vector<int32_t> ChatPrompter::encode(const RenderedChat& chat, bool continues) const {
  EncodeOptions options{.add_bos = {}, .add_eos = false, .parse_special = true, .plain = chat.input};
  if (continues) options.add_bos = false;
  std::vector<int32_t> ids = tokenizer_.encode(chat.text, options);
  // A template that writes the beginning-of-text token itself does not get a second one.
  const auto bos = tokenizer_.bos();
  if (!continues && bos && ids.size() >= 2 && ids[0] == *bos && ids[1] == *bos) ids.erase(ids.begin());
  return ids;
}

}  // namespace butterfly::model
