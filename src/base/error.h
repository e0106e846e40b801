// Errors a request can end with. Thrown where the request cannot be served, caught once at the edge.
#pragma once
#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace butterfly {

enum class Errc {
  kOk = 0,
  kInvalidArgument,  // what the caller asked for makes no sense
  kNotFound,         // a file, tensor, key or name is not there
  kUnsupported,      // well-formed, but not something this build can do
  kCorrupt,          // a file or message breaks its own format
  kIo,               // the system refused: open, read, write, map
  kOutOfMemory,      // a stated memory bound would be passed
  kTimeout,
  kPeerLost,
  kQueueFull,
  kCancelled,
};

std::string_view errc_name(Errc code);

// What is thrown. `what()` names the place, the expected and the found:
//   model.gguf: tensor blk.0.attn_q.weight: ends at byte 1200, the file has 1000
class Error : public std::runtime_error {
 public:
  Error(Errc code, const std::string& text) : std::runtime_error(text), code_(code) {}
  Errc code() const { return code_; }

 private:
  Errc code_;
};

[[noreturn]] void throw_error(Errc code, std::string text);

// throw Error with a formatted text: fail(Errc::kCorrupt, "{}: magic is {:08x}", path, magic)
template <typename... Args>
[[noreturn]] void fail(Errc code, fmt::format_string<Args...> format, Args&&... args) {
  throw_error(code, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace butterfly
