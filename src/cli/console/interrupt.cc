#include "cli/console/interrupt.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "cli/console/exit_code.h"

namespace butterfly::cli {
namespace {

std::atomic<bool> flag{false};
std::atomic<bool> kept_apart{false};
std::atomic<const char*> announcement{nullptr};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<const char*>::is_always_lock_free,
              "a signal handler may only touch lock-free atomics");

void on_interrupt(int) {
  if (flag.exchange(true) && !kept_apart.load()) _exit(kExitInterrupted);
  const char* words = announcement.load();
  if (words == nullptr) return;
  const int kept = errno;  // of the call that the signal came into
  // A reader that is slow must not hold up the stop.
  pollfd err{STDERR_FILENO, POLLOUT, 0};
  if (poll(&err, 1, 0) == 1 && (err.revents & POLLOUT) != 0) {
    const ssize_t written = write(STDERR_FILENO, words, std::strlen(words));
    static_cast<void>(written);
  }
  errno = kept;
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

void announce_interrupt(const char* words) { announcement.store(words); }

bool interrupted() { return flag.load(std::memory_order_relaxed); }

void clear_interrupt() { flag.store(false); }

KeepInterrupts::KeepInterrupts() { kept_apart.store(true); }
KeepInterrupts::~KeepInterrupts() { kept_apart.store(false); }

void throw_if_interrupted() {
  if (interrupted()) fail(Errc::kCancelled, "interrupted");
}

}  // namespace butterfly::cli
