// link_bench [ROUNDS]: a message there and back between two threads, over each transport: what a hop between
// stages costs beside the wire. Spinning and sleeping receivers in turns, so that a slow spell of the machine
// meets both. Prints Markdown.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "base/cpu.h"
#include "cluster/testing/test_identity.h"
#include "cluster/transport/message.h"
#include "cluster/transport/transport_table.h"

using namespace butterfly;
using namespace butterfly::cluster;
using namespace std::chrono_literals;

namespace {

constexpr Duration kLong = 30s;
constexpr int kTurns = 10;

struct Mode {
  const char* name;
  const char* transport;
  Duration spin;
};
constexpr Mode kModes[] = {
    {"inproc", "inproc", 0us}, {"tcp+tls, sleeping", "tcp", 0us}, {"tcp+tls, spinning", "tcp", 50us}};

// Two nodes with a link; the second one sends back whatever comes.
class Echo {
 public:
  explicit Echo(const Mode& mode) {
    const auto network = std::make_shared<InprocNetwork>();
    const auto make = [&](const std::string& name) {
      const auto tls = identity_.node(name);
      return make_transport(mode.transport, {.self = tls->self(),
                                             .network = network,
                                             .tls = tls,
                                             .tcp = {.spin = mode.spin},
                                             .enrol = {}})
          .or_throw();
    };
    a_ = make("a");
    b_ = make("b");
    listener_ = b_->listen(std::string(mode.transport) == "tcp" ? "127.0.0.1:0" : "b").or_throw();
    thread_ = std::thread([this] {
      const auto link = listener_->accept(kLong).or_throw();
      std::vector<std::byte> body;
      for (;;) {
        const auto head = link->receive_head(kLong);
        if (!head.ok()) return;
        body.resize(head->bytes);
        if (!link->receive_body(body, kLong).ok() || !send_message(*link, *head, body, kLong).ok()) return;
      }
    });
    link_ = a_->connect(listener_->address(), "", kLong).or_throw();
  }
  ~Echo() {
    link_->close();
    thread_.join();
  }

  // Microseconds of `rounds` round trips.
  void time(size_t bytes, int rounds, std::vector<double>& samples) {
    std::vector<std::byte> body(bytes, std::byte{1});
    for (int i = 0; i < rounds; ++i) {
      const TimePoint start = SystemClock::instance().now();
      send_message(*link_, {.kind = MessageKind::kActivations}, body, kLong).or_throw();
      (void)link_->receive_head(kLong).or_throw();
      link_->receive_body(body, kLong).or_throw();
      samples.push_back(
          std::chrono::duration<double, std::micro>(SystemClock::instance().now() - start).count());
    }
  }

 private:
  cluster::testing::TestIdentity identity_;
  std::unique_ptr<Transport> a_, b_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Link> link_;
  std::thread thread_;
};

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 2000;
  fmt::print(
      "{}, {} CPUs; link_bench {}\n\n| bytes | link | p50 us | p90 us | p99 us | least us "
      "|\n|---|---|---|---|---|---|\n",
      cpu_model_name(), default_thread_count(), rounds);
  std::vector<std::unique_ptr<Echo>> echoes;
  for (const Mode& mode : kModes) echoes.push_back(std::make_unique<Echo>(mode));
  for (const size_t bytes : {size_t{64}, size_t{16} << 10, size_t{1} << 20}) {
    std::vector<std::vector<double>> samples(std::size(kModes));
    for (int turn = 0; turn < kTurns; ++turn)
      for (size_t i = 0; i < echoes.size(); ++i)
        echoes[i]->time(bytes, std::max(1, rounds / kTurns), samples[i]);
    for (size_t i = 0; i < echoes.size(); ++i) {
      std::vector<double>& s = samples[i];
      std::sort(s.begin(), s.end());
      const auto at = [&](double share) {
        return s[std::min(s.size() - 1, static_cast<size_t>(share * static_cast<double>(s.size())))];
      };
      fmt::print("| {} | {} | {:.1f} | {:.1f} | {:.1f} | {:.1f} |\n", bytes, kModes[i].name, at(0.5), at(0.9),
                 at(0.99), s[0]);
    }
  }
}
