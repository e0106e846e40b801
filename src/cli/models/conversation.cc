#include "cli/models/conversation.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"

namespace butterfly::cli {
namespace {

// Of the context: what an answer may need at least before old turns are kept instead.
constexpr size_t kAnswerShare = 4;
constexpr const char* kForm = "butterfly-chat-1";

}  // namespace

std::string chat_template_of(const runtime::LoadedModel& model) {
  return model.file.metadata().string_or("tokenizer.chat_template", "");
}

Conversation::Conversation(runtime::Engine& engine, const model::Tokenizer& tokenizer,
                           const std::string& chat_template)
    : engine_(engine), prompter_(tokenizer, chat_template) {
  prompter_.check_template();
}

std::vector<int32_t> Conversation::prompt(std::span<const Turn> turns) const {
  auto messages = model::ChatJson::array();
  if (!system_.empty()) messages.push_back({{"role", "system"}, {"content", system_}});
  for (const Turn& turn : turns) messages.push_back({{"role", turn.role}, {"content", turn.text}});
  return prompter_.prompt({.messages = &messages});
}

size_t Conversation::tokens() const { return turns_.empty() && system_.empty() ? 0 : prompt(turns_).size(); }

// `turns` end with a message. They become those of the conversation when there is an answer, and not before.
runtime::Completion Conversation::answer(std::vector<Turn> turns, const runtime::RequestOptions& options,
                                         const runtime::TextSink& sink) {
  const size_t context = engine_.context();
  runtime::EngineRequest request(options);
  request.prompt = prompt(turns);
  size_t forgotten = 0;
  while (turns.size() > 2 && request.prompt.size() + context / kAnswerShare > context) {
    turns.erase(turns.begin(), turns.begin() + 2);
    forgotten += 2;
    request.prompt = prompt(turns);
  }
  if (request.prompt.size() >= context)
    fail(Errc::kInvalidArgument,
         "the message is too long: {} tokens with all that belongs to it, the context holds {}; shorten it, "
         "or "
         "start with a larger -c",
         request.prompt.size(), context);
  std::string text;
  runtime::Completion done = runtime::complete(engine_, std::move(request), [&](std::string_view piece) {
    text += piece;
    return sink(piece);
  });
  turns.push_back({"assistant", std::move(text)});
  turns_ = std::move(turns);
  forgotten_ += forgotten;
  return done;
}

runtime::Completion Conversation::ask(const std::string& message, const runtime::RequestOptions& options,
                                      const runtime::TextSink& sink) {
  std::vector<Turn> turns = turns_;
  turns.push_back({"user", message});
  return answer(std::move(turns), options, sink);
}

runtime::Completion Conversation::ask_again(const runtime::RequestOptions& options,
                                            const runtime::TextSink& sink) {
  std::vector<Turn> turns = turns_;
  while (!turns.empty() && turns.back().role != "user") turns.pop_back();
  if (turns.empty()) fail(Errc::kInvalidArgument, "there is no message to answer again; type one first");
  return answer(std::move(turns), options, sink);
}

void Conversation::set_system(std::string text) {
  std::swap(system_, text);
  const std::vector<Turn> shortest = {{"user", "?"}};
  const size_t count = prompt(shortest).size();
  if (count < engine_.context()) return;
  std::swap(system_, text);
  fail(Errc::kInvalidArgument, "the system message is too long: {} tokens, the context holds {}", count,
       engine_.context());
}

std::string Conversation::to_json() const {
  model::ChatJson json = {{"form", kForm}, {"system", system_}, {"messages", model::ChatJson::array()}};
  for (const Turn& turn : turns_) json["messages"].push_back({{"role", turn.role}, {"content", turn.text}});
  return json_text(json, 1) + "\n";
}

void Conversation::from_json(std::string_view text) {
  const auto json = json_of_text_or_none<model::ChatJson>(text);
  const auto wrong = [](const char* what) {
    fail(Errc::kCorrupt, "this is no conversation that was kept with /save: {}", what);
  };
  if (!json.is_object() || json.value("form", "") != kForm) wrong("its form is another");
  if (!json.contains("messages") || !json["messages"].is_array()) wrong("expected a list of messages");
  std::vector<Turn> turns;
  for (const model::ChatJson& row : json["messages"]) {
    if (!row.is_object() || !row.contains("role") || !row.contains("content") ||
        !row["content"].is_string() || (row["role"] != "user" && row["role"] != "assistant"))
      wrong("expected messages of user and assistant, with texts");
    turns.push_back({row["role"].get<std::string>(), row["content"].get<std::string>()});
  }
  if (json.contains("system") && !json["system"].is_string()) wrong("its system message is no text");
  set_system(json.value("system", ""));
  turns_ = std::move(turns);
}

}  // namespace butterfly::cli
