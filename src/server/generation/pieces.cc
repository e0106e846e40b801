#include "server/generation/pieces.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

namespace butterfly::server {
namespace {

static_assert(std::endian::native == std::endian::little, "base64 embeddings are little-endian");

std::string base64(std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    for (size_t j = 0; j < 3; ++j)
      group = group << 8 | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0);
    for (size_t j = 0; j < 4; ++j) out += j <= count ? kDigits[group >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

Json token_json(const model::Tokenizer& tokenizer, int32_t id, float logprob) {
  std::string_view piece = tokenizer.piece(id);
  if (piece.empty()) piece = tokenizer.token_text(id);  // control tokens: as they are written
  Json bytes = Json::array();
  for (const char c : piece) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", piece}, {"logprob", logprob}, {"bytes", std::move(bytes)}};
}

}  // namespace

HttpResponse sse_head() {
  HttpResponse head;
  head.content_type = "text/event-stream; charset=utf-8";
  return head;
}

HttpResponse ndjson_head() {
  HttpResponse head;
  head.content_type = "application/x-ndjson";
  return head;
}

std::string sse_piece(const Json& json) { return "data: " + to_text(json) + "\n\n"; }

std::string sse_event(std::string_view name, const Json& json) {
  return fmt::format("event: {}\ndata: {}\n\n", name, to_text(json));
}

Json usage_json(const runtime::Usage& usage, size_t reasoning_tokens) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.generated_tokens},
          {"total_tokens", usage.prompt_tokens + usage.generated_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"completion_tokens_details", {{"reasoning_tokens", reasoning_tokens}}}};
}

Json chat_logprobs(const model::Tokenizer& tokenizer, const std::vector<runtime::TokenEvent>& tokens) {
  Json content = Json::array();
  for (const runtime::TokenEvent& event : tokens) {
    Json entry = token_json(tokenizer, event.token, event.logprob);
    Json top = Json::array();
    for (const runtime::TokenLogprob& other : event.top)
      top.push_back(token_json(tokenizer, other.token, other.logprob));
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

std::string rfc3339_now() {
  const auto now = std::chrono::system_clock::now();
  const auto us =
      std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count() % 1'000'000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(now)),
                     us);
}

std::string rfc3339(std::chrono::system_clock::time_point time) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(time)));
}

Json embedding_json(const std::vector<float>& values, bool as_base64) {
  if (!as_base64) return Json(values);
  return base64({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
}

std::vector<float> shortened(std::vector<float> values, size_t dimensions) {
  if (dimensions == 0 || dimensions >= values.size()) return values;
  values.resize(dimensions);
  double squares = 0;
  for (const float value : values) squares += double{value} * value;
  const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
  for (float& value : values) value = static_cast<float>(value * scale);
  return values;
}

}  // namespace butterfly::server
