#include "cluster/identity/renewal.h"

#include <fmt/format.h>

namespace butterfly::cluster {

bool renewal_due(const Certificate& certificate, WallTime now) {
  const auto life = certificate.not_after() - certificate.not_before();
  return now >= certificate.not_after() - life / 3;
}

std::vector<std::byte> renewal_request(const Credentials& credentials) {
  return CertificateRequest::make(credentials.key, credentials.id().name).to_der();
}

Result<std::vector<std::byte>> answer_renewal(const Authority& authority, const Roster& roster,
                                              const NodeId& peer, std::span<const std::byte> request,
                                              WallTime now) {
  const auto wanted = CertificateRequest::from_der(request);
  if (!wanted) return wanted.status();
  const NodeId node = wanted->node();
  if (node.key != peer.key || node.name != peer.name)
    return {Errc::kInvalidArgument, fmt::format("[renewal] {} ({:.12}) asks for a certificate of {} ({:.12})",
                                                peer.name, peer.key, node.name, node.key)};
  if (roster.is_removed(peer.key))
    return {Errc::kInvalidArgument, fmt::format("[renewal] {} ({:.12}) was removed", peer.name, peer.key)};
  return authority.issue(*wanted, now).to_der();
}

Result<Credentials> accept_renewal(const Credentials& old, std::span<const std::byte> reply) {
  const auto renewed = Certificate::from_der(reply);
  if (!renewed) return renewed.status();
  if (renewed->node() != old.id() || renewed->node().name != old.id().name)
    return {Errc::kCorrupt, "[renewal] the new certificate is another node's"};
  if (!renewed->signed_by(old.authority))
    return {Errc::kCorrupt, "[renewal] the new certificate is not signed by the cluster's authority"};
  if (renewed->not_after() <= old.own.not_after())
    return {Errc::kCorrupt, "[renewal] the new certificate ends no later than the old one"};
  return Credentials{.authority = old.authority, .own = *renewed, .key = old.key};
}

}  // namespace butterfly::cluster
