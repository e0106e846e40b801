// mpirun -n 2 exchange_bench [ROUNDS]: what two members of a stage pay for telling each other their parts of
// a layer, over TLS and over MPI in turns: two processes of one machine, each on a CPU of its own. "cold":
// each reads 24 MiB between two exchanges, as a layer's weights are. Prints Markdown.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/testing/temp_dir.h"
#include "chain/loopback_chain.h"
#include "cluster/collective/member_links.h"
#include "cluster/identity/authority.h"
#include "cluster/transport/transport_table.h"

using namespace butterfly;
using namespace butterfly::cluster;

namespace {

constexpr Duration kPatience = std::chrono::seconds(10);
constexpr size_t kCold = 24u << 20;

// Both ranks are nodes of a cluster whose folder the first one made.
Credentials credentials_of(MpiWorld& world, const StateFolder& folder) {
  if (world.rank() == 0) return load_credentials(folder);
  const auto authority = Authority::load(folder);
  const auto key = PrivateKey::make();
  const auto own = authority.issue(CertificateRequest::make(key, "there"), wall_now());
  return {.authority = authority.certificate(), .own = own, .key = key};
}

struct Way {
  const char* name;
  std::unique_ptr<MemberLinks> links = {};
};

void open(const std::shared_ptr<MpiWorld>& world, std::vector<Way>& ways) {
  const testing::TempDir temporary;
  if (world->rank() == 0)
    (void)found_cluster(StateFolder::make(temporary / "state"), "bench", "here", wall_now());
  const auto folder = StateFolder::open(world->broadcast((temporary / "state").string()));
  TransportSetting setting;
  setting.tls = std::make_shared<NodeTls>(credentials_of(*world, folder));
  setting.mpi = world;
  for (Way& way : ways) {
    const auto transport = make_transport(way.name, setting).or_throw();
    std::unique_ptr<Listener> listener;
    if (world->rank() == 0) listener = transport->listen("127.0.0.1:0").or_throw();
    const std::string address = world->broadcast(listener == nullptr ? "" : listener->address());
    const bool opens = world->rank() == 1;
    auto link = opens ? transport->connect(address, "", kPatience).or_throw()
                      : listener->accept(kPatience).or_throw();
    Hello mine{.purpose = LinkPurpose::kStage};
    transport->introduce(mine, opens);
    const Hello theirs = exchange_hello(*link, mine, kPatience).or_throw();
    link = transport->settle(std::move(link), mine, theirs, opens);
    std::vector<std::shared_ptr<Link>> links(2);
    links[1 - world->rank()] = std::move(link);
    way.links = std::make_unique<MemberLinks>(std::move(links), world->rank());
  }
  (void)world->gather("");  // before the folder goes
}

uint64_t walk(const std::vector<uint64_t>& memory) {
  uint64_t sum = 0;
  for (size_t i = 0; i < memory.size(); i += 8) sum += memory[i];
  return sum;
}

double at(std::vector<double>& values, double share) {
  std::ranges::sort(values);
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

}  // namespace

int main(int argc, char** argv) {
  const size_t rounds = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 500;
  const auto world = MpiWorld::join();
  if (world->size() != 2) world->abort(1);
  const std::vector<int> cpus = allowed_cpus();
  bench::pin_to(static_cast<size_t>(cpus[world->rank() % cpus.size()]));
  std::vector<Way> ways;
  ways.push_back({"tcp"});
  ways.push_back({"mpi"});
  open(world, ways);
  if (world->rank() == 0)
    fmt::print(
        "{}, {}; exchange_bench {}\n\n| bytes | caches | way | p50 us | p90 us |\n|---|---|---|---|---|\n",
        cpu_model_name(), world->library(), rounds);
  const std::vector<uint64_t> memory(kCold / 8, 1);
  volatile uint64_t sink = 0;
  for (const size_t bytes : {size_t{8} << 10, size_t{64} << 10, size_t{4} << 20})
    for (const bool cold : {false, true}) {
      std::vector<double> took[2];
      std::vector<std::byte> mine(bytes), theirs(bytes);
      const size_t count = bytes > (1u << 20) ? std::max<size_t>(1, rounds / 10) : rounds;
      for (size_t turn = 0; turn < 10; ++turn)
        for (size_t w = 0; w < ways.size(); ++w)
          for (size_t i = 0; i < count; ++i) {
            if (cold) {
              sink = walk(memory);
              std::ranges::fill(mine, static_cast<std::byte>(i));  // the layer's own result is warm
            }
            const MemberLinks::Outgoing piece[] = {{mine}};
            const MemberLinks::Incoming from[] = {{1 - world->rank(), theirs}};
            // Both begin together, so that nobody is timed for the other's reading.
            if (cold) {
              std::byte mark{}, other{};
              const MemberLinks::Outgoing marks[] = {{{&mark, 1}}};
              const MemberLinks::Incoming marks_from[] = {{1 - world->rank(), {&other, 1}}};
              ways[1 - w].links->run(marks, marks_from).or_throw();
            }
            const TimePoint start = system_now();
            ways[w].links->run(piece, from).or_throw();
            took[w].push_back(1e6 * seconds_of(system_now() - start));
          }
      for (size_t w = 0; w < ways.size() && world->rank() == 0; ++w)
        fmt::print("| {} | {} | {} | {:.1f} | {:.1f} |\n", bytes, cold ? "cold" : "warm",
                   ways[w].name == std::string_view("tcp") ? "TLS" : "MPI", at(took[w], 0.5),
                   at(took[w], 0.9));
    }
  (void)sink;
  ways.clear();
  world->finish();
}
