// Anthropic's requests in the words of chat: messages, tools and choices that templates know.
#pragma once
#include "server/api/fields.h"

namespace butterfly::server {

// "system" and "messages" as one list of chat messages. Results of tools become messages of their own; blocks
// that are neither text, tools nor thinking are refused, in results a line stands for them. Throws ApiError
// 400 that names the block.
Json chat_messages_of(const Json* system, const Json& messages);

// "tools" as functions. Tools that a server of Anthropic's would run itself (web search, code execution) are
// left out: no model here could call them.
Json chat_tools_of(const Json* tools);

// {"type": "auto" | "any" | "tool" | "none"} as chat has it; absent: null.
Json chat_tool_choice_of(const Json* choice);

}  // namespace butterfly::server
