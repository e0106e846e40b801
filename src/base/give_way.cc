#include "base/give_way.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace butterfly {
namespace {

constexpr long kShareNs = 200'000;

// Of the CPU, since the thread let others go first.
thread_local timespec last_let_go{};

// A thread that has just got the CPU keeps it: timers go on while it waits, and two threads whose timers end
// together would give way to each other without end.
void yield(int) {
  const int before = errno;
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  if ((now.tv_sec - last_let_go.tv_sec) * 1'000'000'000 + now.tv_nsec - last_let_go.tv_nsec >= kShareNs) {
    last_let_go = now;
    ::sched_yield();
  }
  errno = before;
}

// Once for the process. False: somebody else has a handler, which is left alone.
bool handle() {
  struct sigaction action = {};
  struct sigaction before = {};
  if (::sigaction(SIGURG, nullptr, &before) != 0) return false;
  if ((before.sa_flags & SA_SIGINFO) != 0 || (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN))
    return false;
  action.sa_handler = yield;
  action.sa_flags = SA_RESTART;
  return ::sigaction(SIGURG, &action, nullptr) == 0;
}

}  // namespace

GiveWay::GiveWay() {
  static const bool handled = handle();
  if (!handled) return;
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGURG;
  event._sigev_un._tid = static_cast<pid_t>(::syscall(SYS_gettid));
  made_ = ::timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0;
}

GiveWay::~GiveWay() {
  if (made_) ::timer_delete(timer_);
}

void GiveWay::set(long every_ns) {
  if (!made_) return;
  itimerspec spec{};
  spec.it_interval.tv_nsec = spec.it_value.tv_nsec = every_ns;
  ::timer_settime(timer_, 0, &spec, nullptr);
}

}  // namespace butterfly
