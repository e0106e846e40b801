// Rules about a model's reasoning: how long it may be, and that other rules begin behind it.
#pragma once
#include <memory>
#include <optional>

#include "model/sampling/token_constraint.h"
#include "model/tokenizer/tokenizer.h"
#include "server/tools/marked_parser.h"

namespace butterfly::server {

struct ThinkingOptions {
  ReasoningMarks marks;
  bool inside = false;               // the prompt has opened it; else the text may open it first thing
  std::optional<size_t> tokens_max;  // of the reasoning; then the closing mark comes
};

// Any text up to the closing mark, then what `then` allows (null: any text). Borrows the tokenizer.
std::unique_ptr<model::TokenConstraint> thinking_rules(const model::Tokenizer& tokenizer,
                                                       const ThinkingOptions& options,
                                                       std::unique_ptr<model::TokenConstraint> then);

}  // namespace butterfly::server
