#include "cluster/transport/spin.h"

#include <sys/socket.h>

#include <atomic>
#include <cerrno>

#include "base/cpu.h"

namespace butterfly::cluster {
namespace {

std::atomic<int> spinning{0};

int cpus() {
  static const int count = static_cast<int>(default_thread_count());
  return count;
}

}  // namespace

SpinPlace::SpinPlace() : have_(spinning.fetch_add(1, std::memory_order_relaxed) + 1 < cpus()) {}

SpinPlace::~SpinPlace() { spinning.fetch_sub(1, std::memory_order_relaxed); }

bool spin_until_readable(int fd, Duration limit) {
  if (limit <= Duration::zero()) return false;
  const SpinPlace place;
  if (!place.have()) return false;
  const TimePoint end = SystemClock::instance().now() + limit;
  do {
    char first;
    const ssize_t count = ::recv(fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (count >= 0 || (errno != EAGAIN && errno != EINTR)) return true;
  } while (SystemClock::instance().now() < end);
  return false;
}

int spinning_threads() { return spinning.load(std::memory_order_relaxed); }

}  // namespace butterfly::cluster
