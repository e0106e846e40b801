// libFuzzer: bodies of /v1/messages, from bytes to the messages, tools and choices that templates get.
// Allowed outcomes are an ApiError and messages that chat takes.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "model/chat_template/chat_messages.h"
#include "server/api/api_error.h"
#include "server/api/fields.h"
#include "server/generation/anthropic_input.h"

using namespace butterfly::server;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const Json body = parse_json({reinterpret_cast<const char*>(data), size});
    const Fields fields(body, kMessageFields);
    const Json messages = chat_messages_of(fields.find("system"), *fields.find("messages"));
    chat_tools_of(fields.find("tools"));
    chat_tool_choice_of(fields.find("tool_choice"));
    if (!messages.empty()) butterfly::model::checked_messages(messages);  // one of ours must pass
  } catch (const ApiError& error) {
    if (error.status < 400 || error.status > 499) __builtin_trap();
  }
  return 0;
}
