#include "cli/console/exit_code.h"

namespace butterfly::cli {

int exit_code_for(Errc code) {
  switch (code) {
    case Errc::kOk:
      return kExitOk;
    case Errc::kInvalidArgument:
    case Errc::kNotFound:
    case Errc::kUnsupported:
    case Errc::kCorrupt:
      return kExitUsage;
    case Errc::kIo:
    case Errc::kOutOfMemory:
    case Errc::kTimeout:
    case Errc::kPeerLost:
    case Errc::kQueueFull:
      return kExitFailure;
    case Errc::kCancelled:
      return kExitInterrupted;
  }
  return kExitFailure;
}

}  // namespace butterfly::cli
