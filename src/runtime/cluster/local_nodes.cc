#include "runtime/cluster/local_nodes.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/error.h"
#include "cluster/node/measure_node.h"
#include "runtime/cluster/plan_placement.h"

namespace butterfly::runtime {
namespace {

constexpr Duration kEndMax = std::chrono::seconds(3);
constexpr Duration kLook = std::chrono::milliseconds(10);

// CPUs [index * n / count, (index + 1) * n / count) of these; with fewer CPUs than nodes one each, in turn.
cpu_set_t share_of_cpus(const std::vector<int>& cpus, size_t index, size_t count) {
  cpu_set_t set;
  CPU_ZERO(&set);
  const size_t begin = index * cpus.size() / count, end = (index + 1) * cpus.size() / count;
  if (begin == end) CPU_SET(static_cast<size_t>(cpus[index % cpus.size()]), &set);
  for (size_t i = begin; i < end; ++i) CPU_SET(static_cast<size_t>(cpus[i]), &set);
  return set;
}

// Whoever starts a cluster to try it should not wait for figures that only people look at.
constexpr std::chrono::milliseconds kPeakTime{5}, kKernelTime{100};
constexpr uint64_t kPeakBytes = 64 << 20;

}  // namespace

cluster::Capabilities measure_local_node(ThreadPool& pool, const model::ModelFile& model,
                                         const std::string& program) {
  return cluster::measure_node(pool, {.program = program,
                                      .types = {main_type(model)},
                                      .kernels = {.bytes = 0, .time = kKernelTime},
                                      .time_per_figure = kPeakTime,
                                      .dram_bytes = kPeakBytes});
}

PrivateFolder::PrivateFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "butterfly-local-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr)
    fail(Errc::kIo, "{}: cannot make a folder: {}", pattern, std::strerror(errno));
  path_ = pattern;
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

LocalNodes::LocalNodes() : cpus_(allowed_cpus()) {}

void LocalNodes::bind_first(size_t count) const {
  const cpu_set_t cpus = share_of_cpus(cpus_, 0, count);
  ::sched_setaffinity(0, sizeof cpus, &cpus);
}

void LocalNodes::start(const std::vector<std::string>& arguments, size_t index, size_t count) {
  // Everything that allocates happens before the fork: other threads may hold the allocator's lock.
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<char*> words{const_cast<char*>(program.c_str())};
  for (const std::string& word : arguments) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const cpu_set_t cpus = share_of_cpus(cpus_, index, count);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) fail(Errc::kIo, "cannot start a node: {}", std::strerror(errno));
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);  // it ended in between
    ::setpgid(0, 0);                        // Ctrl-C is for the parent, which ends us in order
    ::sched_setaffinity(0, sizeof cpus, &cpus);
    ::execv(program.c_str(), words.data());
    ::_exit(127);
  }
  processes_.push_back(child);
}

LocalNodes::~LocalNodes() {
  for (const pid_t process : processes_) ::kill(process, SIGTERM);
  const Deadline deadline(SystemClock::instance(), kEndMax);
  for (const pid_t process : processes_) {
    while (::waitpid(process, nullptr, WNOHANG) == 0) {
      if (deadline.expired()) ::kill(process, SIGKILL);
      SystemClock::instance().sleep_for(kLook);
    }
  }
}

}  // namespace butterfly::runtime
