#include "cli/nodes/led_serve.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "cli/console/version.h"
#include "cli/models/model_store.h"
#include "cli/nodes/cluster_access.h"
#include "cli/nodes/node_setup.h"
#include "cluster/identity/roster.h"
#include "cluster/member/incarnation.h"
#include "cluster/node/addresses.h"
#include "runtime/nodes/cluster_node.h"
#include "server/models/model_specs.h"

namespace butterfly::cli {
namespace {

constexpr Duration kLook = std::chrono::milliseconds(50);
constexpr Duration kAtOnce =
    std::chrono::milliseconds(300);  // one that may lead at once need not be a node first

std::string name_in(const cluster::Mandate& mandate, const std::string& key) {
  for (const cluster::NodeId& node : mandate.seats)
    if (node.key == key) return node.name;
  return key.empty() ? "nobody" : key.substr(0, 12);
}

// Where to look for who leads.
std::string some_leader(const cluster::StateFolder& folder, const runtime::LeadDesk& desk,
                        const std::string& self) {
  if (folder.has(kCoordinatorFile)) {
    const std::string text = folder.read(kCoordinatorFile);
    return text.substr(0, text.find('\n'));
  }
  for (const cluster::NodeId& seat : desk.record().mandate.seats)
    if (seat.key != self)
      if (const std::string address = desk.address_of(seat.key); !address.empty()) return address;
  return fmt::format("127.0.0.1:{}", cluster::kClusterPort);
}

std::unique_ptr<runtime::ClusterNode> make_standby(const server::Settings& settings,
                                                   const cluster::StateFolder& folder,
                                                   const std::shared_ptr<runtime::LeadDesk>& desk,
                                                   const std::string& self, Compute& compute) {
  const char* measured = std::getenv("BUTTERFLY_CAPABILITIES");
  std::vector<std::string> files;
  for (const server::ModelSpec& spec : server::model_specs(settings, resolve_model))
    files.push_back(spec.path.string());
  runtime::ClusterNodeOptions node;
  node.state = folder.path();
  node.coordinator = some_leader(folder, *desk, self);
  node.listen = settings.cluster_listen.empty() ? fmt::format("0.0.0.0:{}", cluster::kClusterPort)
                                                : cluster::with_port(settings.cluster_listen);
  node.version = build_info().version;
  node.places = weight_places("", files);
  node.capabilities = runtime::node_capabilities(capability_source(measured == nullptr ? "" : measured),
                                                 folder, node.places.cache, compute.take().pool());
  if (!settings.memory.empty()) node.memory_bytes = parse_bytes(settings.memory).or_throw();
  node.compute = &compute;
  node.desk = desk;
  return std::make_unique<runtime::ClusterNode>(std::move(node));
}

// The same words again, in this process. Whatever it has open is closed when the other threads have ended,
// not before: one of them might write to a descriptor that means something else by then.
[[noreturn]] void begin_again() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::string words{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  std::vector<char*> arguments;
  for (size_t at = 0; at < words.size(); at = words.find('\0', at) + 1)
    arguments.push_back(words.data() + at);
  arguments.push_back(nullptr);
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  ::execv("/proc/self/exe", arguments.data());
  ::_exit(1);
}

}  // namespace

std::shared_ptr<runtime::LeadShell> lead_or_stand_by(server::Settings& settings) {
  const cluster::StateFolder folder = open_state(settings.state);
  const cluster::Credentials credentials = cluster::load_credentials(folder);
  const bool founder = cluster::Authority::is_here(folder);
  for (const auto* names : {&settings.standby, &settings.witness})
    for (const std::string& name : *names)
      if (name == credentials.id().name)
        fail(Errc::kInvalidArgument, "--{} {}: is the name of this machine; expected another one's",
             names == &settings.standby ? "standby" : "witness", name);
  if (!founder && (!settings.standby.empty() || !settings.witness.empty()))
    fail(Errc::kInvalidArgument,
         "--standby, --witness: are said where the cluster was made ('butterfly init'); here 'butterfly "
         "serve' without "
         "them stands by");
  if (founder && settings.standby.empty() && !folder.has("lead")) return nullptr;
  if (settings.journal.empty()) settings.journal = (folder.path() / "journal").string();
  const auto desk = std::make_shared<runtime::LeadDesk>(
      runtime::LeadDesk::Options{.folder = folder,
                                 .authority = credentials.authority,
                                 .journal = std::filesystem::absolute(settings.journal)});
  cluster::TransportSetting setting;
  setting.self = credentials.id();
  setting.tls = std::make_shared<cluster::NodeTls>(credentials, std::make_shared<cluster::Roster>(folder));
  cluster::Hello hello;
  hello.version = build_info().version;
  runtime::LeadShell::Options options{
      .folder = folder,
      .self = credentials.id(),
      .desk = desk,
      .transport = cluster::make_transport("tcp", std::move(setting)).or_throw(),
      .hello = hello,
      .authority = std::nullopt,
      .after = cluster::last_incarnation(folder)};
  if (founder) options.authority = cluster::Authority::load(folder);
  const auto lead = std::make_shared<runtime::LeadShell>(std::move(options));
  lead->start();
  install_end_signals();
  const TimePoint began = system_now();
  while (!lead->leads() && system_now() - began < kAtOnce) SystemClock::instance().sleep_for(kLook);
  if (lead->leads()) {
    desk->close_journal();
    return lead;
  }
  Compute compute(settings.threads);
  const auto node = make_standby(settings, folder, desk, credentials.id().key, compute);
  node->start();
  std::string said;
  while (!lead->leads() && !end_asked_for()) {
    const runtime::LeadShell::View view = lead->view();
    const std::string now =
        lead->mandate().may_lead(credentials.id().key)
            ? fmt::format("Standing by: {} leads{}", name_in(lead->mandate(), view.leader),
                          view.leader.empty() && !view.why_not.empty() ? " (" + view.why_not + ")" : "")
            : fmt::format(
                  "Works as a node. To make it a standby: 'butterfly serve ... --standby {}' where the "
                  "cluster was made",
                  credentials.id().name);
    if (now != said) fmt::print(stderr, "{}\n", said = now);
    SystemClock::instance().sleep_for(kLook);
  }
  node->stop("the node leads from now on");
  if (lead->leads()) log_info("this machine leads the cluster from now on: term {}", lead->view().term);
  desk->close_journal();
  return lead;
}

LeadWatch::LeadWatch(std::shared_ptr<runtime::LeadShell> lead) : lead_(std::move(lead)) {
  if (lead_ == nullptr) return;
  thread_ = std::thread([this] {
    while (!ended_) {
      if (lead_->over()) {
        log_warn("{}: this machine stands by from now on", lead_->view().why_not);
        begin_again();
      }
      SystemClock::instance().sleep_for(kLook);
    }
  });
}

LeadWatch::~LeadWatch() {
  ended_ = true;
  if (thread_.joinable()) thread_.join();
  if (lead_ != nullptr) lead_->stop();
}

}  // namespace butterfly::cli
