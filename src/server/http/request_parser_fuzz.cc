// libFuzzer: bytes of a client, in pieces the input itself decides, through the parser and the checks of the
// head.
#include <cstddef>
#include <cstdint>
#include <string>

#include "server/context/access.h"
#include "server/http/request_parser.h"
#include "server/routes/route_table.h"

using namespace butterfly::server;

constexpr size_t kBodyBytes = 256;  // inputs are short

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  HttpLimits limits;
  limits.head_bytes = 4096;
  limits.body_bytes = kBodyBytes;
  const size_t step = 1 + data[0] % 64;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  static const AccessPolicy policy = [] {
    AccessOptions options;
    options.keys.add("a-key-for-the-fuzzer");
    options.hosts = {"box.lan"};
    return AccessPolicy(options);
  }();
  // Files may be longer than other bodies, and go to a file.
  const LargeBodyFor large = [](const HttpRequest& head) -> std::optional<LargeBody> {
    if (head.path != "/v1/files") return std::nullopt;
    return LargeBody{2 * kBodyBytes, "/tmp"};
  };
  std::string buffer;
  size_t at = 0;
  // Several requests, one after the other, as on a real connection.
  while (at < text.size()) {
    RequestParser parser(limits, large);
    auto state = parser.feed(buffer);
    while (state != RequestParser::State::kDone && state != RequestParser::State::kFailed) {
      if (state == RequestParser::State::kBody &&
          (state = parser.feed(buffer)) != RequestParser::State::kBody)
        break;
      if (at >= text.size()) return 0;
      buffer += text.substr(at, step);
      at += step;
      state = parser.feed(buffer);
      if (buffer.size() > limits.head_bytes + limits.body_bytes + 64)
        __builtin_trap();  // it must take, or refuse
    }
    if (state == RequestParser::State::kFailed) {
      if (parser.failure().status < 400 || parser.failure().words.empty()) __builtin_trap();
      return 0;
    }
    const HttpRequest& request = parser.request();
    if (request.body.size() > limits.body_bytes || request.content().size() > 2 * kBodyBytes ||
        request.fields.size() > limits.field_count)
      __builtin_trap();
    uint64_t owner;
    policy.check_site(request);
    policy.check_key(request, &owner);
    find_route(request.method, request.path, Door::kNetwork);
  }
  return 0;
}
