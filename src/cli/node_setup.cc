#include "cli/node_setup.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <ctime>
#include <fstream>

#include "base/cpu.h"
#include "base/log.h"
#include "cli/interrupt.h"
#include "cli/model_store.h"
#include "cli/version.h"
#include "cluster/identity/certificate.h"
#include "cluster/node/capability_file.h"
#include "cluster/node/measure_node.h"
#include "cluster/node/topology.h"
#include "kernels/target.h"

namespace butterfly::cli {
namespace {

std::atomic<bool> terminated{false};

void on_term(int) {
  if (terminated.exchange(true)) _exit(143);
}

std::string program_text() {
  const BuildInfo info = build_info();
  return info.version + " " + info.revision;
}

}  // namespace

cluster::Capabilities node_capabilities(const std::string& file, const cluster::StateFolder& folder,
                                        ThreadPool& pool) {
  if (!file.empty()) {
    std::ifstream in(file);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    return cluster::parse_capabilities(text).or_throw();
  }
  return cluster::load_or_measure(folder, cluster::this_machine(program_text(), pool.size()),
                                  std::time(nullptr), false, [&] {
                                    fmt::print(stderr, "Measuring this machine: some seconds, once\n");
                                    cluster::MeasureOptions options;
                                    options.program = program_text();
                                    return cluster::measure_node(pool, options);
                                  });
}

cluster::Capabilities nominal_capabilities(size_t threads) {
  const cluster::Topology topology = cluster::this_topology();
  const auto all = [&](double one) { return cluster::ThreadedRate{one, one * static_cast<double>(threads)}; };
  cluster::Capabilities c;
  c.cpu = cpu_model_name();
  c.target = build_info().target;
  c.program = program_text();
  c.numerics_id = static_cast<uint32_t>(kernels::kNumericsId);
  c.packages = topology.packages;
  c.numa_nodes = topology.numa_nodes;
  c.cores = topology.cores;
  c.threads = static_cast<uint32_t>(threads);
  c.l1d_bytes = topology.l1d_bytes;
  c.l2_bytes = topology.l2_bytes;
  c.l3_bytes = topology.l3_bytes;
  c.ram_bytes = c.ram_limit_bytes = memory_limit_bytes();
  c.memory = all(8e9);
  c.f32 = all(40e9);
  c.int8 = all(100e9);
  c.measured_unix_s = std::time(nullptr);
  return c;
}

runtime::WeightPlaces weight_places(const std::string& cache, const std::vector<std::string>& models) {
  runtime::WeightPlaces places;
  places.cache = cache.empty() ? runtime::default_weight_cache() : std::filesystem::path(cache);
  for (const std::string& model : models) {
    const std::filesystem::path path = std::filesystem::absolute(resolve_model(model));
    places.folders.push_back(std::filesystem::is_directory(path) ? path : path.parent_path());
  }
  for (const StoredModel& stored : ModelStore::of_user().list())
    places.folders.push_back(std::filesystem::is_directory(stored.path) ? stored.path
                                                                        : stored.path.parent_path());
  std::sort(places.folders.begin(), places.folders.end());
  places.folders.erase(std::unique(places.folders.begin(), places.folders.end()), places.folders.end());
  return places;
}

std::string default_node_name() {
  char text[256] = {};
  if (::gethostname(text, sizeof text - 1) != 0) return "node";
  std::string name = text;
  name = name.substr(0, std::min<size_t>(name.find('.'), 63));
  return cluster::why_not_node_name(name).empty() ? name : "node";
}

void install_end_signals() {
  struct sigaction action {};
  action.sa_handler = on_term;
  sigemptyset(&action.sa_mask);
  sigaction(SIGTERM, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
}

bool end_asked_for() { return terminated.load(std::memory_order_relaxed) || interrupted(); }

}  // namespace butterfly::cli
