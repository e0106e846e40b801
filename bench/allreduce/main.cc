// allreduce_bench NODES tls|plain REPEATS BYTES...: the collective of a training step between processes on
// loopback. Everybody sends everybody the part of its gradients that the other owns, owners finish the tree
// and send the sums to all. Prints a line of JSON for each size. With ALLREDUCE_NETNS=PREFIX process i runs
// in the network namespace PREFIXi and has the address 10.80.0.(i + 1), as race.py --mbit makes them; with
// ALLREDUCE_SOCKET_BYTES sockets have buffers of that size.
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allreduce/plain_link.h"
#include "base/check.h"
#include "cluster/testing/test_identity.h"
#include "cluster/transport/tcp.h"
#include "runtime/training/link_readers.h"
#include "runtime/training/train_link.h"
#include "train/trainer/gradient_tree.h"

using namespace butterfly;
using namespace butterfly::cluster;

namespace {

constexpr size_t kNodesMax = 16, kRepeatsMax = 1000;
constexpr Duration kLong = std::chrono::minutes(5);

// Without sleeping, as MPI's own: what a process needs to wake up is not of the collective that follows.
class Barrier {
 public:
  void wait(size_t processes) {
    const uint32_t round = round_;
    if (++here_ == processes) {
      here_ = 0;
      ++round_;
    }
    while (round_ == round) std::this_thread::yield();
  }

 private:
  std::atomic<uint32_t> here_{0}, round_{0};
};

// Between the processes.
struct Shared {
  Barrier barrier;
  char address[kNodesMax][64];
  double seconds[kNodesMax][kRepeatsMax];
  double cpu_seconds[kNodesMax];
};

double cpu_seconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Links of one process to all others.
struct Mesh {
  std::vector<std::shared_ptr<runtime::TrainLink>> links;  // by node; null: itself
};

int listen_plain(std::string& address) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in any = {};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(any);
  BF_CHECK(::bind(listener, reinterpret_cast<sockaddr*>(&any), size) == 0 && ::listen(listener, 16) == 0 &&
           ::getsockname(listener, reinterpret_cast<sockaddr*>(&any), &size) == 0);
  address = std::to_string(ntohs(any.sin_port));
  return listener;
}

int connect_plain(const std::string& port) {
  const int out = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(port)));
  BF_CHECK(::connect(out, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0) << port;
  return out;
}

void no_delay(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

// Of process `self`, where there are namespaces: it is in its own from now on.
std::string enter_namespace(size_t self) {
  const char* prefix = std::getenv("ALLREDUCE_NETNS");
  if (prefix == nullptr) return "127.0.0.1";
  const std::string path = fmt::format("/run/netns/{}{}", prefix, self);
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  BF_CHECK(file >= 0 && ::setns(file, CLONE_NEWNET) == 0) << path;
  ::close(file);
  return fmt::format("10.80.0.{}", self + 1);
}

// Of two processes the later one calls, and says who it is.
Mesh connect_all(const std::string& host, size_t self, size_t nodes, const std::shared_ptr<NodeTls>& tls,
                 Shared& shared) {
  Mesh mesh;
  mesh.links.resize(nodes);
  std::unique_ptr<Listener> listener;
  std::string address;
  int plain = -1;
  if (tls != nullptr) {
    listener = tcp_listen(tls, host + ":0").or_throw();
    address = listener->address();
  } else {
    plain = listen_plain(address);
  }
  std::snprintf(shared.address[self], sizeof(shared.address[self]), "%s", address.c_str());
  shared.barrier.wait(nodes);
  for (size_t other = 0; other < self; ++other) {
    std::unique_ptr<Link> link;
    if (tls != nullptr) {
      link = tcp_connect(tls, shared.address[other], "", kLong).or_throw();
    } else {
      const int socket = connect_plain(shared.address[other]);
      no_delay(socket);
      link = bench::plain_link(socket, {});
    }
    mesh.links[other] = std::make_shared<runtime::TrainLink>(std::move(link));
    mesh.links[other]->send(PeerGreeting{1, static_cast<TrainMemberId>(self), 0}).or_throw();
  }
  for (size_t i = self + 1; i < nodes; ++i) {
    std::unique_ptr<Link> link;
    if (tls != nullptr) {
      link = listener->accept(kLong).or_throw();
    } else {
      const int socket = ::accept(plain, nullptr, nullptr);
      no_delay(socket);
      link = bench::plain_link(socket, {});
    }
    auto from = std::make_shared<runtime::TrainLink>(std::move(link));
    const auto greeting = decode_peer_greeting(from->receive(kLong).or_throw().body).or_throw();
    mesh.links[greeting.from] = std::move(from);
  }
  const char* socket_bytes = std::getenv("ALLREDUCE_SOCKET_BYTES");
  for (auto& link : mesh.links)
    if (link != nullptr && socket_bytes != nullptr)
      link->set_socket_bytes(std::strtoull(socket_bytes, nullptr, 10));
  return mesh;
}

// One process's part: links are read as those of a member are (LinkReaders), and what comes is put where it
// belongs, as in a step.
class Node {
 public:
  Node(size_t self, size_t nodes, Mesh mesh, size_t floats)
      : self_(self), nodes_(nodes), mesh_(std::move(mesh)), floats_(floats) {
    for (size_t i = 0; i <= nodes; ++i) cuts_.push_back(floats * i / nodes / 16 * 16);
    cuts_.back() = floats;
    tree_ = std::make_unique<train::GradientTree>(cuts_[self + 1] - cuts_[self]);
    gradients_.resize(floats);
    result_.resize(floats);
    for (size_t i = 0; i < floats; ++i)
      gradients_[i] = static_cast<float>(self + 1) + static_cast<float>(i % 7);
    for (size_t other = 0; other < nodes; ++other)
      if (other != self) threads_.emplace_back([this, other] { read(other); });
  }
  ~Node() {
    readers_.stop();
    for (auto& link : mesh_.links)
      if (link != nullptr) link->close();
    for (std::thread& thread : threads_) thread.join();
  }

  void begin() {
    tree_->begin(nodes_);
    shards_ = 0;
  }
  void all_reduce() {
    own_added_ = false;
    others_added_ = 0;
    send(
        TrainValues::kGradients, [&](size_t to) { return gradients_.data() + cuts_[to]; },
        [&](size_t to) { return cuts_[to + 1] - cuts_[to]; });
    wait([&] { return tree_->complete(); });
    const train::GradientSum sum = tree_->result();
    std::memcpy(result_.data() + cuts_[self_], sum.values, tree_->floats() * sizeof(float));
    send(
        TrainValues::kWeights, [&](size_t) { return sum.values; }, [&](size_t) { return tree_->floats(); });
    wait([&] { return shards_ == nodes_ - 1; });
  }
  void check() const {
    const auto nodes = static_cast<float>(nodes_);
    for (size_t i = 0; i < floats_; ++i) {
      const float expected = nodes * (nodes + 1) / 2 + nodes * static_cast<float>(i % 7);
      BF_CHECK(result_[i] == expected) << "value " << i << " is " << result_[i] << ", expected " << expected;
    }
  }

 private:
  // To all others, as a member sends its shard of the new weights.
  template <typename Values, typename Count>
  void send(TrainValues what, Values values, Count count) {
    std::vector<runtime::LinkReaders::Sending> all;
    for (size_t i = 1; i < nodes_; ++i) {
      const size_t to = (self_ + i) % nodes_;
      const std::span<const std::byte> piece(reinterpret_cast<const std::byte*>(values(to)),
                                             count(to) * sizeof(float));
      all.push_back({.link = mesh_.links[to], .values = {1, 1, {.what = what}, {&piece, 1}}});
    }
    readers_.send(all);
    for (const auto& sent : all) sent.status.or_throw();
  }
  // To the neighbour's sum, once that is here: the own gradients stay as they are.
  void add_own() {
    if (own_added_ || others_added_ < nodes_ - 1) return;
    own_added_ = true;
    tree_->finish(self_, {.memory = {}, .values = gradients_.data() + cuts_[self_]}, adding_);
  }
  // Sums are added up here, whoever reads them.
  void wait(FunctionRef<bool()> enough) {
    for (;;) {
      std::vector<std::pair<size_t, train::GradientSum>> came;
      {
        const std::lock_guard lock(mutex_);
        came.swap(came_);
      }
      for (auto& [from, sum] : came) {
        tree_->finish(from, std::move(sum), adding_);
        ++others_added_;
      }
      add_own();
      if (enough()) return;
      readers_.wait(system_now() + kLong, [&] {
        const std::lock_guard lock(mutex_);
        return !came_.empty() || enough();
      });
    }
  }
  void read(size_t from) {
    runtime::TrainLink& link = *mesh_.links[from];
    const runtime::LinkReaders::Take take = [&](const auto& incoming,
                                                bool) -> Result<runtime::LinkReaders::Taken> {
      if (incoming.values.what == TrainValues::kGradients) {
        auto sum = std::make_shared<train::GradientSum>(tree_->take());
        const std::span<std::byte> piece(reinterpret_cast<std::byte*>(sum->values),
                                         tree_->floats() * sizeof(float));
        link.place_values(incoming, {&piece, 1});
        return runtime::LinkReaders::Taken{.placed = [this, from, sum](const Status& came) {
          const std::lock_guard lock(mutex_);
          if (came) came_.emplace_back(from, std::move(*sum));
          readers_.wake();
          return came;
        }};
      }
      const std::span<std::byte> piece(reinterpret_cast<std::byte*>(result_.data() + cuts_[from]),
                                       (cuts_[from + 1] - cuts_[from]) * sizeof(float));
      link.place_values(incoming, {&piece, 1});
      return runtime::LinkReaders::Taken{.placed = [this](const Status& came) {
        if (came) ++shards_;
        readers_.wake();
        return came;
      }};
    };
    (void)readers_.read(link, take);
  }

  const size_t self_, nodes_;
  Mesh mesh_;
  const size_t floats_;
  std::vector<size_t> cuts_;
  std::unique_ptr<train::GradientTree> tree_;
  std::vector<float> gradients_, result_;
  ThreadPool adding_{1};
  std::mutex mutex_;
  std::vector<std::pair<size_t, train::GradientSum>> came_;  // with the lock
  bool own_added_ = false;
  size_t others_added_ = 0;
  std::atomic<size_t> shards_ = 0;
  runtime::LinkReaders readers_;
  std::vector<std::thread> threads_;
};

void run(size_t self, size_t nodes, const std::shared_ptr<NodeTls>& tls, size_t bytes, size_t repeats,
         Shared& shared) {
  const std::string host = enter_namespace(self);
  BF_CHECK(tls != nullptr || host == "127.0.0.1") << "plain frames stay on loopback";
  Node node(self, nodes, connect_all(host, self, nodes, tls, shared), bytes / sizeof(float));
  double cpu = 0;
  // Half of the rounds are not timed: they bring memory and windows up, and processes to CPUs of their own.
  const size_t untimed = std::max<size_t>(repeats, 2);
  for (size_t i = 0; i < untimed + repeats; ++i) {
    node.begin();
    shared.barrier.wait(nodes);
    if (i == untimed) cpu = cpu_seconds();
    const TimePoint start = system_now();
    node.all_reduce();
    if (i >= untimed) shared.seconds[self][i - untimed] = seconds_of(system_now() - start);
    if (i == 0) node.check();
    shared.barrier.wait(nodes);
  }
  shared.cpu_seconds[self] = cpu_seconds() - cpu;
  shared.barrier.wait(nodes);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    fmt::print(stderr, "allreduce_bench NODES tls|plain REPEATS BYTES...\n");
    return 2;
  }
  const size_t nodes = std::strtoull(argv[1], nullptr, 10), repeats = std::strtoull(argv[3], nullptr, 10);
  const bool with_tls = std::string(argv[2]) == "tls";
  BF_CHECK(nodes >= 2 && nodes <= kNodesMax && repeats >= 1 && repeats <= kRepeatsMax);
  for (int i = 4; i < argc; ++i) {
    const size_t bytes = std::strtoull(argv[i], nullptr, 10);
    auto* shared = static_cast<Shared*>(
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    BF_CHECK(shared != MAP_FAILED);
    new (shared) Shared;
    const cluster::testing::TestIdentity identity;
    std::vector<std::shared_ptr<NodeTls>> tls(nodes);
    for (size_t n = 0; with_tls && n < nodes; ++n) tls[n] = identity.node("n" + std::to_string(n));
    std::vector<pid_t> children;
    for (size_t n = 0; n < nodes; ++n) {
      const pid_t child = ::fork();
      if (child == 0) {
        run(n, nodes, tls[n], bytes, repeats, *shared);
        ::_exit(0);
      }
      children.push_back(child);
    }
    bool good = true;
    for (const pid_t child : children) {
      int status = 0;
      ::waitpid(child, &status, 0);
      good = good && status == 0;
    }
    if (!good) return 1;
    std::vector<double> seconds;
    for (size_t r = 0; r < repeats; ++r) {
      double longest = 0;
      for (size_t n = 0; n < nodes; ++n) longest = std::max(longest, shared->seconds[n][r]);
      seconds.push_back(longest);
    }
    std::sort(seconds.begin(), seconds.end());
    double cpu = 0;
    for (size_t n = 0; n < nodes; ++n) cpu += shared->cpu_seconds[n];
    const double reduced = static_cast<double>(bytes) * static_cast<double>(repeats);
    fmt::print("{{\"bytes\":{},\"p50_s\":{:.6f},\"min_s\":{:.6f},\"cpu_s_per_gb\":{:.3f}}}\n", bytes,
               seconds[seconds.size() / 2], seconds[0], cpu / reduced * 1e9);
    std::fflush(stdout);
    ::munmap(shared, sizeof(Shared));
  }
}
