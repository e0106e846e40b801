// Ctrl-C: the first asks the running command to stop cleanly, the second ends the program at once.
#pragma once

namespace butterfly::cli {

// Takes over SIGINT for the rest of the program. Blocking reads return early (EINTR) so that they can look.
void install_interrupt_handler();

// True from the first Ctrl-C on. One atomic load: loops ask once per token or per chunk.
bool interrupted();

// Throws Error kCancelled after a Ctrl-C. For commands that keep nothing when stopped.
void throw_if_interrupted();

}  // namespace butterfly::cli
