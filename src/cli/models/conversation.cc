#include "cli/models/conversation.h"

#include <nlohmann/json.hpp>

namespace butterfly::cli {
namespace {

// Of the context: what an answer may need at least before old turns are kept instead.
constexpr size_t kAnswerShare = 4;

}  // namespace

std::string chat_template_of(const runtime::LoadedModel& model) {
  return model.file.metadata().string_or("tokenizer.chat_template", "");
}

Conversation::Conversation(runtime::Engine& engine, const model::Tokenizer& tokenizer,
                           const std::string& chat_template)
    : engine_(engine), prompter_(tokenizer, chat_template) {
  prompter_.check_template();
}

std::vector<int32_t> Conversation::prompt() const {
  auto messages = model::ChatJson::array();
  for (const Turn& turn : turns_) messages.push_back({{"role", turn.role}, {"content", turn.text}});
  return prompter_.prompt({.messages = &messages});
}

std::vector<int32_t> Conversation::prompt_that_fits() {
  std::vector<int32_t> ids = prompt();
  while (turns_.size() > 2 && ids.size() + engine_.context() / kAnswerShare > engine_.context()) {
    turns_.erase(turns_.begin(), turns_.begin() + 2);
    forgotten_ += 2;
    ids = prompt();
  }
  return ids;
}

runtime::Completion Conversation::ask(const std::string& message, const runtime::RequestOptions& options,
                                      const runtime::TextSink& sink) {
  turns_.push_back({"user", message});
  std::string answer;
  try {
    runtime::EngineRequest request(options);
    request.prompt = prompt_that_fits();
    runtime::Completion done = runtime::complete(engine_, std::move(request), [&](std::string_view text) {
      answer += text;
      return sink(text);
    });
    turns_.push_back({"assistant", answer});
    return done;
  } catch (...) {
    turns_.pop_back();
    throw;
  }
}

}  // namespace butterfly::cli
