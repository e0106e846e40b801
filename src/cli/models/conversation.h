// A conversation with a model: turns go through its chat template, answers come out as text.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model/chat_template/chat_prompt.h"
#include "runtime/engine/complete.h"
#include "runtime/layers/loaded_model.h"

namespace butterfly::cli {

// The template of a model's file; empty for a file without one.
std::string chat_template_of(const runtime::LoadedModel& model);

// Borrows engine and tokenizer. Not thread-safe.
//
// What the engine's cache holds of the turns before is not computed again. When the turns no longer fit the
// context with room for an answer, the oldest are forgotten, two at a time.
class Conversation {
 public:
  // An empty template: ChatML. Throws Error for one that cannot be read.
  Conversation(runtime::Engine& engine, const model::Tokenizer& tokenizer, const std::string& chat_template);

  // The answer goes to `sink` as it comes; it becomes part of the conversation, however it ended.
  runtime::Completion ask(const std::string& message, const runtime::RequestOptions& options,
                          const runtime::TextSink& sink);

  void forget_all() { turns_.clear(); }
  size_t forgotten() const { return forgotten_; }  // turns, since the beginning

 private:
  struct Turn {
    const char* role;
    std::string text;
  };
  std::vector<int32_t> prompt() const;
  std::vector<int32_t> prompt_that_fits();

  runtime::Engine& engine_;
  model::ChatPrompter prompter_;
  std::vector<Turn> turns_;
  size_t forgotten_ = 0;
};

}  // namespace butterfly::cli
