#include "base/sigbus_guard.h"

#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/error.h"

namespace butterfly::sigbus {
namespace {

// A range that is being read cannot be removed at the same time (its owner lives), so the handler needs no
// more than ordered stores: `end` is written last and cleared first.
struct Mapping {
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};  // 0: free
  char path[256] = {};
};
Mapping table[kMappingsMax];
std::atomic<size_t> table_used{0};  // slots from here on were never used
std::mutex table_mutex;             // for add and remove; the handler does not take it

struct Guard {
  sigjmp_buf back;
  sigset_t mask;  // of the thread when the fault came
  Guard* outer;
  const Mapping* lost;
  uintptr_t address;
};
// initial-exec: the handler must not run into lazy allocation of thread-local memory.
[[gnu::tls_model("initial-exec")]] constinit thread_local Guard* innermost = nullptr;

struct sigaction previous;

const Mapping* find(uintptr_t address) {
  const size_t used = table_used.load(std::memory_order_acquire);
  for (size_t i = 0; i < used; ++i) {
    const uintptr_t end = table[i].end.load(std::memory_order_acquire);
    if (address < end && address >= table[i].begin.load(std::memory_order_relaxed)) return &table[i];
  }
  return nullptr;
}

void say(const char* text) {
  if (write(STDERR_FILENO, text, strlen(text)) < 0) return;  // nothing better to do inside a handler
}

void pass_on(int signal, siginfo_t* info, void* context) {
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, info, context);
    return;
  }
  const bool sent = info->si_code <= 0;  // by kill(), not by a fault
  if (previous.sa_handler == SIG_IGN && sent) return;
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
    return;
  }
  // Default: take our handler away and let the fault happen again, so that the core dump shows the right
  // place.
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  sigaction(signal, &standard, nullptr);
  if (sent) raise(signal);
}

void on_sigbus(int signal, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  const Mapping* mapping = info->si_code > 0 ? find(address) : nullptr;
  if (mapping != nullptr && innermost != nullptr) {
    innermost->lost = mapping;
    innermost->address = address;
    innermost->mask = static_cast<const ucontext_t*>(context)->uc_sigmask;
    siglongjmp(innermost->back, 1);
  }
  if (mapping != nullptr) {
    say("butterfly: ");
    say(mapping->path);
    say(": the file became shorter or unreadable while mapped, and was read outside a guard\n");
  }
  pass_on(signal, info, context);
}

void install_once() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = on_sigbus;
    // SA_NODEFER: we leave by a jump that does not restore the signal mask (that would be a system call per
    // guard).
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGBUS, &action, &previous) != 0) fail(Errc::kIo, "cannot install a SIGBUS handler");
  });
}

}  // namespace

bool add_mapping(const void* begin, size_t size, const char* path) {
  install_once();
  const std::lock_guard lock(table_mutex);
  const size_t used = table_used.load(std::memory_order_relaxed);
  size_t slot = 0;
  while (slot < used && table[slot].end.load(std::memory_order_relaxed) != 0) ++slot;
  if (slot == kMappingsMax) return false;
  const size_t length = strlen(path);
  const size_t kept = std::min(length, sizeof(table[slot].path) - 1);
  memcpy(table[slot].path, path + length - kept, kept + 1);
  table[slot].begin.store(reinterpret_cast<uintptr_t>(begin), std::memory_order_relaxed);
  table[slot].end.store(reinterpret_cast<uintptr_t>(begin) + size, std::memory_order_release);
  if (slot == used) table_used.store(used + 1, std::memory_order_release);
  return true;
}

void remove_mapping(const void* begin) {
  const std::lock_guard lock(table_mutex);
  const size_t used = table_used.load(std::memory_order_relaxed);
  for (size_t i = 0; i < used; ++i)
    if (table[i].end.load(std::memory_order_relaxed) != 0 &&
        table[i].begin.load(std::memory_order_relaxed) == reinterpret_cast<uintptr_t>(begin)) {
      table[i].end.store(0, std::memory_order_release);
      return;
    }
}

void guard(FunctionRef<void()> fn) {
  Guard here;
  here.outer = innermost;
  // 0: the signal mask is restored below and only when needed; saving it here would be a system call per
  // guard.
  if (sigsetjmp(here.back, 0) == 0) {
    struct Leave {  // also when fn throws
      Guard* outer;
      ~Leave() { innermost = outer; }
    } leave{here.outer};
    innermost = &here;
    fn();
    return;
  }
  innermost = here.outer;
  pthread_sigmask(SIG_SETMASK, &here.mask, nullptr);
  fail(Errc::kIo,
       "{}: byte {} cannot be read: the file became shorter, or the disk failed, while it was in use",
       here.lost->path, here.address - here.lost->begin.load(std::memory_order_relaxed));
}

}  // namespace butterfly::sigbus
