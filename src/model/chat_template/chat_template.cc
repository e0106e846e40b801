#include "model/chat_template/chat_template.h"

#include <algorithm>

#include "model/chat_template/evaluator.h"
#include "model/chat_template/json_text.h"
#include "model/chat_template/operators.h"
#include "model/chat_template/parser.h"

namespace butterfly::model {

using namespace chat_template;

struct ChatTemplate::Tree {
  Limits limits;
  Block block;
};

namespace {

Value read(Budget& budget, std::string_view what, std::string_view json) {
  try {
    return parse_json(budget, json);
  } catch (const Error& error) {
    fail(error.code(), "chat template: {}: {}", what, error.what());
  }
}

void define_all(Evaluator& evaluator, std::string_view what, const Value& object) {
  if (object.dict() == nullptr)
    fail(Errc::kInvalidArgument, "chat template: {} must be an object, found {}", what, object.type_name());
  for (const auto& [key, value] : object.dict()->entries) evaluator.define(key.text(), value);
}

std::tm time_or_now(const std::optional<std::tm>& now) {
  if (now) return *now;
  const std::time_t seconds = std::time(nullptr);
  std::tm local{};
  localtime_r(&seconds, &local);
  return local;
}

// `messages` with roles that count as the template's words.
Value with_own_roles(Budget& budget, const Value& messages) {
  if (messages.list() == nullptr) return messages;
  Values items;
  for (const Value& message : iterate(budget, messages)) {
    const Value* role = message.dict() == nullptr ? nullptr : message.dict()->find("role");
    if (role == nullptr || !role->is_text() || !is_chat_role(role->text())) {
      items.push_back(message);
      continue;
    }
    DictBuilder entries(budget);
    for (const auto& [key, value] : message.dict()->entries)
      entries.add(key, &value == role ? Value::own(role->text()) : value);
    items.push_back(entries.take());
  }
  return make_list(budget, std::move(items));
}

Text run(Evaluator& evaluator, const Block& block) {
  try {
    return evaluator.run(block);
  } catch (const Error& error) {
    fail(error.code(), "chat template: line {}: {}", evaluator.line(), error.what());
  }
}

}  // namespace

ChatTemplate::ChatTemplate(std::unique_ptr<const Tree> tree) : tree_(std::move(tree)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

ChatTemplate ChatTemplate::compile(std::string_view source, const Limits& limits) {
  if (source.size() > limits.source_bytes)
    fail(Errc::kInvalidArgument, "chat template: the source has {} bytes, the limit is {}", source.size(),
         limits.source_bytes);
  try {
    return ChatTemplate(std::make_unique<const Tree>(Tree{limits, parse(source)}));
  } catch (const Error& error) {
    fail(error.code(), "chat template: {}", error.what());
  }
}

RenderedChat RenderedChat::from(size_t begin) const {
  RenderedChat rest{text.substr(begin), {}};
  for (const ByteRange& range : input)
    if (range.end > begin) rest.input.push_back({std::max(range.begin, begin) - begin, range.end - begin});
  return rest;
}

bool is_chat_role(std::string_view role) {
  return role == "system" || role == "user" || role == "assistant" || role == "tool";
}

bool is_set_by_program(std::string_view variable) {
  for (const std::string_view name : {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"})
    if (variable == name) return true;
  return is_global_function(variable);
}

RenderedChat ChatTemplate::render(std::string_view messages_json, std::string_view tools_json,
                                  const ChatTemplateOptions& options) const {
  Limits limits = tree_->limits;
  limits.quick_steps = options.quick_steps;
  Budget budget(limits);
  Evaluator evaluator(budget, time_or_now(options.now));
  evaluator.define("messages", with_own_roles(budget, read(budget, "messages", messages_json)));
  evaluator.define("tools", tools_json.empty() ? Value(None()) : read(budget, "tools", tools_json));
  evaluator.define("documents", None());
  evaluator.define("add_generation_prompt", options.add_generation_prompt);
  evaluator.define("bos_token", Value::own(options.bos_token));
  evaluator.define("eos_token", Value::own(options.eos_token));
  const Value extra = read(budget, "extra variables", options.extra_json);
  if (extra.dict() != nullptr)
    for (const auto& [key, value] : extra.dict()->entries)
      if (is_set_by_program(key.text()))
        fail(Errc::kInvalidArgument, "chat template: extra variables: '{}' is set by the program",
             key.text());
  define_all(evaluator, "extra variables", extra);
  Text text = run(evaluator, tree_->block);
  std::vector<ByteRange> input = text.input_ranges();
  return {std::move(text).take_bytes(), std::move(input)};
}

std::string ChatTemplate::render_variables(std::string_view variables_json,
                                           const std::optional<std::tm>& now) const {
  Budget budget(tree_->limits);
  Evaluator evaluator(budget, time_or_now(now));
  define_all(evaluator, "variables", read(budget, "variables", variables_json));
  return run(evaluator, tree_->block).take_bytes();
}

}  // namespace butterfly::model
