#include "cli/nodes/node_setup.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "cli/console/interrupt.h"
#include "cli/console/version.h"
#include "cli/models/model_store.h"
#include "cluster/identity/certificate.h"

namespace butterfly::cli {
namespace {

std::atomic<bool> terminated{false};

void on_term(int) {
  if (terminated.exchange(true)) _exit(143);
}

}  // namespace

std::string program_text() {
  const BuildInfo info = build_info();
  return info.version + " " + info.revision;
}

runtime::CapabilitySource capability_source(const std::string& file) {
  return {.file = file, .program = program_text(), .on_measure = [] {
            fmt::print(stderr, "Measuring this machine: some seconds, once\n");
          }};
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
