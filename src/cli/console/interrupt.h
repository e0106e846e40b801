// Ctrl-C: the first asks the running command to stop cleanly, the second ends the program at once. Commands
// that save something take SIGTERM for the same.
#pragma once

namespace butterfly::cli {

// Takes over SIGINT for the rest of the program. Blocking reads return early (EINTR) so that they can look.
void install_interrupt_handler();

// True from the first signal on. One atomic load: loops ask once per token or per chunk.
bool interrupted();

// Forgets a signal that came: for commands that go on after it.
void clear_interrupt();

// While one lives, a second signal does not end the program: what runs answers each of them by itself.
class KeepInterrupts {
 public:
  KeepInterrupts();
  ~KeepInterrupts();
  KeepInterrupts(const KeepInterrupts&) = delete;
  KeepInterrupts& operator=(const KeepInterrupts&) = delete;
};

// SIGTERM counts as Ctrl-C from now on. For commands that have something to save: service managers and batch
// systems stop programs with it, and others should end at once.
void stop_cleanly_on_terminate();

// Says `words` on standard error when the first signal comes: for commands that take a while to stop. The
// text has to outlive them; null says nothing.
void announce_interrupt(const char* words);

// Throws Error kCancelled after a Ctrl-C. For commands that keep nothing when stopped.
void throw_if_interrupted();

}  // namespace butterfly::cli
