#include "cli/nodes/member_status.h"

#include "base/error.h"
#include "cli/console/version.h"
#include "cli/nodes/cluster_access.h"
#include "cli/nodes/node_setup.h"
#include "cluster/identity/credentials.h"
#include "cluster/transport/transport_table.h"
#include "runtime/nodes/lead_desk.h"
#include "runtime/nodes/node_door.h"

namespace butterfly::cli {
namespace {

constexpr Duration kAskMax = std::chrono::seconds(5);

struct Place {
  std::string address, key;
};

// Where the cluster may be led from: by whom the certificates name, or by whom this node voted for, or by
// another standby.
std::vector<Place> places(const cluster::StateFolder& folder, const cluster::Credentials& credentials,
                          const std::string& coordinator) {
  std::vector<Place> found;
  if (!coordinator.empty()) found.push_back({coordinator, credentials.own.coordinator()});
  const runtime::LeadDesk desk({.folder = folder, .authority = credentials.authority});
  const cluster::VoterRecord record = desk.record();
  for (const cluster::NodeId& seat : record.mandate.seats) {
    const std::string address = desk.address_of(seat.key);
    if (address.empty() || seat.key == credentials.id().key) continue;
    const bool leads = seat.key == cluster::holder_key(record.holder);
    found.insert(leads ? found.begin() : found.end(), {address, seat.key});
  }
  return found;
}

Result<cluster::ClusterStatus> ask(const cluster::Credentials& credentials, const Place& place) {
  try {
    cluster::TransportSetting setting;
    setting.self = credentials.id();
    setting.tls = std::make_shared<cluster::NodeTls>(credentials);
    const auto transport = cluster::make_transport("tcp", std::move(setting)).or_throw();
    cluster::Hello hello;
    hello.version = build_info().version;
    const auto text = runtime::ask_coordinator(*transport, place.address, place.key, hello, kAskMax);
    if (!text) return text.status();
    return cluster::parse_status(*text);
  } catch (const Error& error) {
    return Status(error.code(), error.what());
  }
}

}  // namespace

std::optional<MemberStatus> member_status(const std::string& state) {
  std::error_code none;
  const std::filesystem::path path = state_path(state);
  if (!std::filesystem::exists(path, none)) return std::nullopt;
  const cluster::StateFolder folder = cluster::StateFolder::open(path);
  // Where the cluster was made there is a record of votes, if it has a standby, which may lead now.
  if (!cluster::has_credentials(folder) || !(folder.has(kCoordinatorFile) || folder.has("lead")))
    return std::nullopt;
  const std::string text = folder.has(kCoordinatorFile) ? folder.read(kCoordinatorFile) : std::string();
  MemberStatus found{text.substr(0, text.find('\n')), Status(Errc::kNotFound, "not asked"),
                     read_node_view(folder)};
  const cluster::Credentials credentials = cluster::load_credentials(folder);
  for (const Place& place : places(folder, credentials, found.coordinator)) {
    auto answer = ask(credentials, place);
    if (answer || found.coordinator.empty()) found.coordinator = place.address;
    if (answer || found.cluster.status().code() == Errc::kNotFound) found.cluster = std::move(answer);
    if (found.cluster) break;
  }
  return found;
}

}  // namespace butterfly::cli
