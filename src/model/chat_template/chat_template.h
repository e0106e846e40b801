// Chat templates of models: from messages to the text of a prompt, as Python's Jinja2 set up by transformers
// does it.
#pragma once
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/chat_template/limits.h"
#include "model/tokenizer/byte_range.h"

namespace butterfly::model {

struct ChatTemplateOptions {
  bool add_generation_prompt = true;
  std::string bos_token = {};
  std::string eos_token = {};
  std::string extra_json = "{}";    // an object: more variables (enable_thinking, documents ...)
  std::optional<std::tm> now = {};  // for strftime_now; absent: the local time
  uint64_t quick_steps = 0;         // throws RenderingTakesLong after so many; 0: never
};

// A conversation as text.
struct RenderedChat {
  std::string text;
  // The stretches that came with the messages, the tools or the extra variables, in order: control tokens
  // spelled there are plain text. What is between them are the template's own words.
  std::vector<ByteRange> input;

  RenderedChat from(size_t begin) const;  // what follows, as a conversation of its own
};

// system, user, assistant, tool: templates build control tokens of them ('<|' + role + '|>'), so these texts
// count as the template's own in messages.
bool is_chat_role(std::string_view role);
// Variables that render() defines itself, and functions of the language.
bool is_set_by_program(std::string_view variable);

// A template that was read. It never changes: any number of threads may render it at once.
class ChatTemplate {
 public:
  using Limits = chat_template::Limits;

  // Throws Error with the line and what was found there.
  static ChatTemplate compile(std::string_view source, const Limits& limits = Limits());

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // `messages_json` is an array; `tools_json` is an array or empty for none. Throws Error when the template
  // refuses them (raise_exception), misuses a value or passes a limit, and for an extra variable that is
  // set by the program.
  RenderedChat render(std::string_view messages_json, std::string_view tools_json,
                      const ChatTemplateOptions& options = {}) const;

  // With any variables: a JSON object.
  std::string render_variables(std::string_view variables_json, const std::optional<std::tm>& now = {}) const;

 private:
  struct Tree;
  explicit ChatTemplate(std::unique_ptr<const Tree> tree);

  std::unique_ptr<const Tree> tree_;
};

}  // namespace butterfly::model
