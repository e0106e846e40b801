// Errors as clients of OpenAI's API know them: a status and {"error": {message, type, param, code}}.
#pragma once
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "server/http/http_message.h"

namespace butterfly::server {

// Thrown by routes, caught once by the dispatcher.
class ApiError : public std::runtime_error {
 public:
  ApiError(int http_status, std::string error_type, const std::string& message, std::string field = {},
           std::string error_code = {})
      : std::runtime_error(message),
        status(http_status),
        type(std::move(error_type)),
        param(std::move(field)),
        code(std::move(error_code)) {}

  int status;
  std::string type;   // "invalid_request_error"
  std::string param;  // the field that is wrong; empty: null
  std::string code;   // for programs; empty: null
  int retry_after_s = 0;
};

// A field of the request that cannot be served: 400.
[[noreturn]] void bad_field(const std::string& param, const std::string& message,
                            const std::string& code = {});

// What stands for a part of a tool's result that no model here can see.
std::string unseen(const std::string& type);

// What an Error from below means to a client.
ApiError api_error_of(Errc code, const std::string& text);

enum class ErrorShape {
  kOpenAi,
  kOllama,     // {"error": "message"}
  kAnthropic,  // {"type": "error", "error": {"type", "message"}}
};
// A prompt that the context does not hold, in words by which agents know that they have to shorten it.
inline constexpr std::string_view kContextExceeded = "context_length_exceeded";
ApiError too_long(size_t tokens, size_t context);
std::string error_body(const ApiError& error, ErrorShape shape = ErrorShape::kOpenAi);
HttpResponse error_response(const ApiError& error, ErrorShape shape = ErrorShape::kOpenAi);

}  // namespace butterfly::server
