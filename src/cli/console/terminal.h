// What the other end of a file descriptor is: a person at a terminal, or a file or pipe.
#pragma once
#include <cstddef>

namespace butterfly::cli {

bool is_terminal(int fd);

// Colour only for a person who did not refuse it (NO_COLOR set and not empty, TERM=dumb).
bool use_color(int fd);

// Columns and lines of the terminal, or `otherwise` when there is none.
size_t terminal_width(int fd, size_t otherwise = 80);
size_t terminal_height(int fd, size_t otherwise = 24);

}  // namespace butterfly::cli
