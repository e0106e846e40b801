// One line of a data file, in whichever of the usual formats: a text, a chat, or a pair of answers.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "model/chat_template/chat_prompt.h"

namespace butterfly::train {

struct Record {
  std::optional<std::string> text;  // plain; without it `messages`
  model::ChatJson messages;         // role and content each
  model::ChatJson tools;            // null: none
  // Of preference pairs: `messages` end with the answer that is better, this is the other chat.
  std::optional<model::ChatJson> rejected;
};

// Takes
//   {"text"}                                         a text
//   {"messages": [{"role", "content"}, ...]}         a chat, with "tools" or without; contents may be parts
//   {"conversations": [{"from", "value"}, ...]}      ShareGPT's names of the same
//   {"prompt", "completion" | "response"}            a question and its answer, as texts or as messages
//   {"instruction", "input", "output"}               Alpaca's, with "system" or without
//   {"prompt", "chosen", "rejected"}                 preference pairs, for rl: dpo
// Throws Error kCorrupt naming the key that is missing or of the wrong kind.
Record read_record(const model::ChatJson& line);

}  // namespace butterfly::train
