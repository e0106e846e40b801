// Messages as OpenAI's API and training files write them, brought into the one form that templates get.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/error.h"

namespace butterfly::model {

// Keeps the order of keys: templates write tools and arguments out.
using ChatJson = nlohmann::ordered_json;

// What is wrong with a conversation, and where.
class ChatInputError : public Error {
 public:
  ChatInputError(std::string where, const std::string& text, std::string program_code = {})
      : Error(Errc::kInvalidArgument, where + ": " + text),
        field(std::move(where)),
        code(std::move(program_code)) {}

  std::string field;  // "messages[2].role"
  std::string code;   // for programs: "unsupported_content"; may be empty
};

// Each message with a known role, its content as one text (parts are joined), arguments of calls as objects,
// and whatever else it has but nulls. `messages` is an array. Throws ChatInputError.
ChatJson checked_messages(const ChatJson& messages);

// For templates that have no words for tools: tools are taught by the system message, calls and results are
// spelled out in contents. `messages` are checked ones; `tools` may be null.
void spell_out_tools(ChatJson& messages, const ChatJson* tools);

}  // namespace butterfly::model
