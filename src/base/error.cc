#include "base/error.h"

namespace butterfly {

std::string_view errc_name(Errc code) {
  switch (code) {
    case Errc::kOk:
      return "ok";
    case Errc::kInvalidArgument:
      return "invalid argument";
    case Errc::kNotFound:
      return "not found";
    case Errc::kUnsupported:
      return "unsupported";
    case Errc::kCorrupt:
      return "corrupt";
    case Errc::kIo:
      return "input/output";
    case Errc::kOutOfMemory:
      return "out of memory";
    case Errc::kTimeout:
      return "timeout";
    case Errc::kPeerLost:
      return "peer lost";
    case Errc::kQueueFull:
      return "queue full";
    case Errc::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

void throw_error(Errc code, std::string text) { throw Error(code, text); }

}  // namespace butterfly
