// A conversation with a model: turns go through its chat template, answers come out as text.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
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
  struct Turn {
    std::string role;  // "user" or "assistant"
    std::string text;
  };

  // An empty template: ChatML. Throws Error for one that cannot be read.
  Conversation(runtime::Engine& engine, const model::Tokenizer& tokenizer, const std::string& chat_template);

  // The answer goes to `sink` as it comes; it becomes part of the conversation, however it ended. Throws
  // Error kInvalidArgument for a message that does not fit the context even alone; then nothing has changed.
  runtime::Completion ask(const std::string& message, const runtime::RequestOptions& options,
                          const runtime::TextSink& sink);
  // Another answer to the last message, in the place of the one it has. Throws Error kInvalidArgument if
  // there is none.
  runtime::Completion ask_again(const runtime::RequestOptions& options, const runtime::TextSink& sink);

  // A message in front of all, which is never forgotten; empty: none. Throws Error kInvalidArgument if it
  // does not fit the context.
  void set_system(std::string text);
  const std::string& system() const { return system_; }
  const std::vector<Turn>& turns() const { return turns_; }
  size_t tokens() const;  // of all that is kept
  size_t context() const { return engine_.context(); }

  void forget_all() { turns_.clear(); }
  size_t forgotten() const { return forgotten_; }  // turns, since the beginning

  // For files: the system message and the turns. from_json() throws Error kCorrupt, and then has changed
  // nothing.
  std::string to_json() const;
  void from_json(std::string_view text);

 private:
  std::vector<int32_t> prompt(std::span<const Turn> turns) const;
  runtime::Completion answer(std::vector<Turn> turns, const runtime::RequestOptions& options,
                             const runtime::TextSink& sink);

  runtime::Engine& engine_;
  model::ChatPrompter prompter_;
  std::string system_;
  std::vector<Turn> turns_;
  size_t forgotten_ = 0;
};

}  // namespace butterfly::cli
