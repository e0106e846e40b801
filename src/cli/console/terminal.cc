#include "cli/console/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace butterfly::cli {

bool is_terminal(int fd) { return isatty(fd) == 1; }

bool use_color(int fd) {
  const char* refused = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool dumb = term == nullptr || std::string_view(term) == "dumb";
  return is_terminal(fd) && !dumb && (refused == nullptr || *refused == '\0');
}

size_t terminal_width(int fd, size_t otherwise) {
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return otherwise;
  return size.ws_col;
}

size_t terminal_height(int fd, size_t otherwise) {
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) return otherwise;
  return size.ws_row;
}

}  // namespace butterfly::cli
