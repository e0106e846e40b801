#include "base/thread_priority.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace butterfly {
namespace {

constexpr uint64_t kSliceNs = 100'000;  // the shortest that Linux takes
// Of those that come last: longer than that, so that who wakes soon goes first, and short, since that is what
// Linux takes from a thread that yields.
constexpr uint64_t kLastSliceNs = 300'000;

// Linux' struct sched_attr, first version; glibc of today has neither it nor the call.
struct SchedAttr {
  uint32_t size;
  uint32_t policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime, deadline, period;
};
static_assert(sizeof(SchedAttr) == 48);

bool set(int nice, uint64_t slice_ns) {
  SchedAttr attr{};
  attr.size = sizeof(attr);
  attr.nice = nice;
  attr.runtime = slice_ns;
  return ::syscall(SYS_sched_setattr, 0, &attr, 0U) == 0;
}

id_t this_thread() { return static_cast<id_t>(::syscall(SYS_gettid)); }

}  // namespace

void wake_soon() { set(::getpriority(PRIO_PROCESS, this_thread()), kSliceNs); }

bool come_after_others(int nice) {
  return set(nice, kLastSliceNs) || ::setpriority(PRIO_PROCESS, this_thread(), nice) == 0;
}

}  // namespace butterfly
