// What the formats of answers share: pieces of streams, counts, log probabilities.
#pragma once
#include <string>
#include <string_view>

#include "server/api/json.h"
#include "server/generation/answer.h"

namespace butterfly::server {

inline constexpr std::string_view kPing = ": ping\n\n";  // a comment: clients skip it

HttpResponse sse_head();
HttpResponse ndjson_head();
std::string sse_piece(const Json& json);
std::string sse_event(std::string_view name, const Json& json);

// OpenAI's usage object; `reasoning_tokens` are among those generated.
Json usage_json(const runtime::Usage& usage, size_t reasoning_tokens);
// {"content": [...], "refusal": null} of chat, of these tokens.
Json chat_logprobs(const model::Tokenizer& tokenizer, const std::vector<runtime::TokenEvent>& tokens);

std::string rfc3339_now();
std::string rfc3339(std::chrono::system_clock::time_point time);  // to the second
// A vector as JSON array, or in base64: little-endian floats.
Json embedding_json(const std::vector<float>& values, bool base64);
// The first `dimensions`, of length 1 again; all if 0.
std::vector<float> shortened(std::vector<float> values, size_t dimensions);

}  // namespace butterfly::server
