#include "server/api/api_error.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "server/api/json.h"

namespace butterfly::server {
namespace {

Json null_if_empty(const std::string& text) { return text.empty() ? Json() : Json(text); }

// Their clients choose their error classes by the status, and show this word.
std::string_view anthropic_type(const ApiError& error) {
  switch (error.status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return error.status < 500 ? "invalid_request_error" : "api_error";
  }
}

}  // namespace

void bad_field(const std::string& param, const std::string& message, const std::string& code) {
  // Some messages from below name the place themselves.
  const bool named = param.empty() || message.starts_with(param + ": ") || message.starts_with(param + " ") ||
                     message.starts_with(param + ",");
  throw ApiError(400, "invalid_request_error", named ? message : param + ": " + message, param, code);
}

std::string unseen(const std::string& type) {
  return fmt::format("[{:.40}: not shown, this model reads text only]", type);
}

ApiError api_error_of(Errc code, const std::string& text) {
  switch (code) {
    case Errc::kInvalidArgument:
    case Errc::kUnsupported:
      return ApiError(400, "invalid_request_error", text);
    case Errc::kNotFound:
      return ApiError(404, "invalid_request_error", text, {}, "not_found");
    case Errc::kQueueFull: {
      ApiError error(429, "rate_limit_error", text, {}, "rate_limit_exceeded");
      error.retry_after_s = 1;
      return error;
    }
    case Errc::kCancelled: {
      ApiError error(503, "server_error", text, {}, "shutting_down");
      error.retry_after_s = 5;
      return error;
    }
    case Errc::kOutOfMemory:
    case Errc::kPeerLost: {
      ApiError error(503, "server_error", text, {}, "unavailable");
      error.retry_after_s = 5;
      return error;
    }
    case Errc::kTimeout:
      return ApiError(408, "server_error", text, {}, "timeout");
    default:
      return ApiError(500, "server_error", text);
  }
}

// The first half is Anthropic's sentence, the second OpenAI's: clients search for either.
ApiError too_long(size_t tokens, size_t context) {
  return ApiError(400, "invalid_request_error",
                  fmt::format("prompt is too long: {} tokens > {} maximum. The maximum context length is {} "
                              "tokens here; the server's -c sets it",
                              tokens, context, context),
                  {}, std::string(kContextExceeded));
}

std::string error_body(const ApiError& error, ErrorShape shape) {
  if (shape == ErrorShape::kOllama) return to_text({{"error", error.what()}});
  if (shape == ErrorShape::kAnthropic)
    return to_text({{"type", "error"},
                    {"error", {{"type", anthropic_type(error)}, {"message", error.what()}}},
                    {"request_id", nullptr}});
  return to_text({{"error",
                   {{"message", error.what()},
                    {"type", error.type},
                    {"param", null_if_empty(error.param)},
                    {"code", null_if_empty(error.code)}}}});
}

HttpResponse error_response(const ApiError& error, ErrorShape shape) {
  HttpResponse response;
  response.status = error.status;
  response.body = error_body(error, shape);
  if (error.retry_after_s > 0)
    response.fields.emplace_back("Retry-After", std::to_string(error.retry_after_s));
  if (error.status == 401) response.fields.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace butterfly::server
