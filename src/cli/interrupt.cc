#include "cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "base/error.h"
#include "cli/exit_code.h"

namespace butterfly::cli {
namespace {

std::atomic<bool> flag{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may only touch lock-free atomics");

void on_interrupt(int) {
  if (flag.exchange(true)) _exit(kExitInterrupted);
}

void handle(int signal) {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;  // no SA_RESTART: a read from the keyboard has to come back
  sigaction(signal, &action, nullptr);
}

}  // namespace

void install_interrupt_handler() { handle(SIGINT); }

void stop_cleanly_on_terminate() { handle(SIGTERM); }

bool interrupted() { return flag.load(std::memory_order_relaxed); }

void throw_if_interrupted() {
  if (interrupted()) fail(Errc::kCancelled, "interrupted");
}

}  // namespace butterfly::cli
