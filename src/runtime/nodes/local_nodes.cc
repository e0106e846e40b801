#include "runtime/nodes/local_nodes.h"

#include <fmt/format.h>
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
#include "cluster/node/topology.h"
#include "runtime/planning/plan_placement.h"

namespace butterfly::runtime {
namespace {

constexpr Duration kEndMax = std::chrono::seconds(3);
constexpr Duration kLook = std::chrono::milliseconds(50);
constexpr Duration kLookAtEnd = std::chrono::milliseconds(10);
constexpr const char* kThisProgram = "/proc/self/exe";
constexpr int kNotExecuted = 127;  // as shells have it

std::filesystem::path this_program() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink(kThisProgram, error);
  if (error)
    fail(Errc::kIo, "local nodes are started from {}, which is not here: {}; mount /proc", kThisProgram,
         error.message());
  return program;
}

cpu_set_t share_of_cpus(const std::vector<int>& cpus, size_t index, size_t count) {
  cpu_set_t set;
  CPU_ZERO(&set);
  const std::vector<std::vector<int>> shares = cluster::cpus_of_nodes(cpus, count);
  for (const int cpu : shares[index]) CPU_SET(static_cast<size_t>(cpu), &set);
  return set;
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("its process was killed by signal {} ({})", WTERMSIG(status),
                       ::strsignal(WTERMSIG(status)));
  if (WEXITSTATUS(status) == kNotExecuted) return "its program could not be started";
  return fmt::format("its process ended with status {}", WEXITSTATUS(status));
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

cluster::Capabilities measure_local_node(ThreadPool& pool, const std::string& program) {
  return cluster::measure_node(pool, {.program = program,
                                      .types = {},
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

LocalNodes::LocalNodes(Options options)
    : options_(std::move(options)),
      cpus_(allowed_cpus()),
      program_(options_.program.empty() ? this_program() : options_.program),
      loop_([this] { watch(); }, kLook) {
  loop_.start();
}

LocalNodes::~LocalNodes() {
  // On the loop's thread, which must not end before its children: that would kill them.
  loop_.ask([this] {
    end_all();
    return true;
  });
  loop_.stop();
}

void LocalNodes::bind_first(size_t count) const {
  const cpu_set_t cpus = share_of_cpus(cpus_, 0, count);
  ::sched_setaffinity(0, sizeof cpus, &cpus);
}

void LocalNodes::on_end(OnEnd callback) {
  loop_.ask([&] {
    on_end_ = std::move(callback);
    return true;
  });
}

void LocalNodes::start(const std::string& name, const std::vector<std::string>& arguments, size_t index,
                       size_t count) {
  loop_
      .ask([&] {
        Node node{name, arguments, index, count, RestartPolicy(options_.restarts)};
        const Status status = spawn(node);
        if (status) nodes_.push_back(std::move(node));
        return status;
      })
      .or_throw();
}

std::vector<pid_t> LocalNodes::processes() {
  return loop_.ask([this] {
    std::vector<pid_t> found;
    for (const Node& node : nodes_)
      if (node.process != 0) found.push_back(node.process);
    return found;
  });
}

Status LocalNodes::spawn(Node& node) const {
  // Everything that allocates happens before the fork: other threads may hold the allocator's lock.
  // Where another file has taken our place meanwhile (an update), nodes are still to be of one program.
  std::error_code ignored;
  const bool in_place =
      !options_.program.empty() || std::filesystem::equivalent(program_, kThisProgram, ignored);
  const std::string program = in_place ? program_.string() : kThisProgram;
  std::vector<char*> words{const_cast<char*>(program_.c_str())};
  for (const std::string& word : node.arguments) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const cpu_set_t cpus = share_of_cpus(cpus_, node.index, node.count);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0)
    return {Errc::kIo, fmt::format("cannot start a process for {}: {}", node.name, std::strerror(errno))};
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);  // it ended in between
    ::setpgid(0, 0);                        // Ctrl-C is for the parent, which ends us in order
    ::sched_setaffinity(0, sizeof cpus, &cpus);
    ::execv(program.c_str(), words.data());
    ::_exit(kNotExecuted);
  }
  node.process = child;
  node.started_at = SystemClock::instance().now();
  return {};
}

void LocalNodes::watch() {
  for (Node& node : nodes_) {
    int status = 0;
    if (node.process != 0 && ::waitpid(node.process, &status, WNOHANG) == node.process) {
      node.process = 0;
      ended(node, how_it_ended(status));
    } else if (node.start_at && SystemClock::instance().now() >= *node.start_at) {
      node.start_at.reset();
      node.started_at = SystemClock::instance().now();
      if (const Status status_of_start = spawn(node); !status_of_start) ended(node, status_of_start.text());
    }
  }
}

void LocalNodes::ended(Node& node, std::string how) {
  const TimePoint now = SystemClock::instance().now();
  const std::optional<Duration> again = node.policy.ended(now - node.started_at);
  const bool wanted = !on_end_ || on_end_({node.name, std::move(how), again, node.policy.in_a_row()});
  if (again && wanted) node.start_at = now + *again;
}

void LocalNodes::end_all() {
  for (Node& node : nodes_) {
    node.start_at.reset();
    if (node.process != 0) ::kill(node.process, SIGTERM);
  }
  const Deadline deadline(SystemClock::instance(), kEndMax);
  for (Node& node : nodes_) {
    while (node.process != 0 && ::waitpid(node.process, nullptr, WNOHANG) == 0) {
      if (deadline.expired()) ::kill(node.process, SIGKILL);
      SystemClock::instance().sleep_for(kLookAtEnd);
    }
    node.process = 0;
  }
}

}  // namespace butterfly::runtime
