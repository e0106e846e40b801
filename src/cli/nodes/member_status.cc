#include "cli/nodes/member_status.h"

#include "base/error.h"
#include "cli/console/version.h"
#include "cli/nodes/cluster_access.h"
#include "cli/nodes/node_setup.h"
#include "cluster/identity/credentials.h"
#include "cluster/transport/transport_table.h"
#include "runtime/nodes/node_door.h"

namespace butterfly::cli {
namespace {

constexpr Duration kAskMax = std::chrono::seconds(5);

Result<cluster::ClusterStatus> ask(const cluster::StateFolder& folder, const std::string& address) {
  try {
    const cluster::Credentials credentials = cluster::load_credentials(folder);
    cluster::TransportSetting setting;
    setting.self = credentials.id();
    setting.tls = std::make_shared<cluster::NodeTls>(credentials);
    const auto transport = cluster::make_transport("tcp", std::move(setting)).or_throw();
    cluster::Hello hello;
    hello.version = build_info().version;
    const auto text =
        runtime::ask_coordinator(*transport, address, credentials.own.coordinator(), hello, kAskMax);
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
  if (!cluster::has_credentials(folder) || !folder.has(kCoordinatorFile)) return std::nullopt;
  const std::string text = folder.read(kCoordinatorFile);
  MemberStatus found{text.substr(0, text.find('\n')), Status(Errc::kNotFound, "not asked"),
                     read_node_view(folder)};
  found.cluster = ask(folder, found.coordinator);
  return found;
}

}  // namespace butterfly::cli
