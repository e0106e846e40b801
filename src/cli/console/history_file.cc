#include <cstdlib>

#include "base/private_folder.h"
#include "cli/console/line_editor.h"

namespace butterfly::cli {

std::filesystem::path chat_history_file() {
  std::filesystem::path base;
  if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state == '/') {
    base = state;
  } else if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/') {
    base = std::filesystem::path(home) / ".local" / "state";
  } else {
    return {};
  }
  std::error_code error;
  std::filesystem::create_directories(base / "butterfly", error);
  return error ? std::filesystem::path() : base / "butterfly" / "chat-history";
}

}  // namespace butterfly::cli
