#include "cli/models/conversation.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace butterfly::cli {
namespace {

// Of the context: what an answer may need at least before old turns are kept instead.
constexpr size_t kAnswerShare = 4;

}  // namespace

std::string chat_template_of(const runtime::LoadedModel& model) {
  return model.file.metadata().string_or("tokenizer.chat_template", "");
}

Conversation::Conversation(runtime::CachedLayers& layers, const std::string& chat_template)
    : layers_(layers), prompter_(layers.model().tokenizer_or_throw(), chat_template) {
  prompter_.check_template();
}

std::vector<int32_t> Conversation::prompt() const {
  auto messages = model::ChatJson::array();
  for (const Turn& turn : turns_) messages.push_back({{"role", turn.role}, {"content", turn.text}});
  return prompter_.prompt({.messages = &messages});
}

std::vector<int32_t> Conversation::prompt_that_fits() {
  std::vector<int32_t> ids = prompt();
  while (turns_.size() > 2 && ids.size() + layers_.positions() / kAnswerShare > layers_.positions()) {
    turns_.erase(turns_.begin(), turns_.begin() + 2);
    forgotten_ += 2;
    ids = prompt();
  }
  return ids;
}

runtime::GenerateResult Conversation::ask(const std::string& message, runtime::GenerateOptions options,
                                          const runtime::TextSink& sink) {
  turns_.push_back({"user", message});
  const std::vector<int32_t> ids = prompt_that_fits();
  const auto same = std::mismatch(ids.begin(), ids.end(), cached_.begin(), cached_.end()).first;
  options.kept = ids.empty() ? 0 : std::min(static_cast<size_t>(same - ids.begin()), ids.size() - 1);
  cached_.clear();  // until the run is over, nothing is certain
  std::string answer;
  runtime::GenerateResult result;
  try {
    result = runtime::generate(layers_, ids, options, [&](std::string_view text) {
      answer += text;
      return sink(text);
    });
  } catch (...) {
    turns_.pop_back();
    throw;
  }
  turns_.push_back({"assistant", answer});
  // A prompt that was cut short leaves no tokens; otherwise all but the last token went through the model.
  if (!result.tokens.empty()) {
    cached_ = ids;
    cached_.insert(cached_.end(), result.tokens.begin(), result.tokens.end() - 1);
  }
  return result;
}

}  // namespace butterfly::cli
