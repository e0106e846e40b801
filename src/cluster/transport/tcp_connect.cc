#include <fmt/core.h>
#include <poll.h>

#include <algorithm>

#include "cluster/transport/tcp.h"
#include "cluster/transport/tcp_link.h"
#include "cluster/transport/tls_handshake.h"

namespace butterfly::cluster {

Result<std::unique_ptr<TlsChannel>> tls_connect(const TlsContext& context, const std::string& address,
                                                const Deadline& deadline, const TcpOptions& options) {
  auto socket = connect_socket(address, deadline);
  if (!socket) return socket.status();
  set_stream_options(*socket, options.user_timeout);
  auto channel = std::make_unique<TlsChannel>(*std::move(socket), context, TlsChannel::Side::kClient);
  const Deadline handshake = Deadline::at(
      SystemClock::instance(),
      std::min(deadline.when(), Deadline(SystemClock::instance(), options.handshake_timeout).when()));
  for (;;) {
    const TlsChannel::Step step = channel->handshake();
    if (step == TlsChannel::Step::kDone) return channel;
    if (step == TlsChannel::Step::kFailed)
      return {Errc::kPeerLost, fmt::format("{}: handshake failed: {}", address, channel->reason())};
    if (!wait_ready(channel->socket().fd(), step == TlsChannel::Step::kWantRead ? POLLIN : POLLOUT,
                    handshake))
      return {Errc::kTimeout, fmt::format("{}: handshake was not finished in time", address)};
  }
}

Result<std::unique_ptr<Link>> tcp_connect(std::shared_ptr<const NodeTls> tls, const std::string& address,
                                          const std::string& expected_key, Duration timeout,
                                          TcpOptions options) {
  const Deadline deadline(SystemClock::instance(), timeout);
  auto channel = tls_connect(tls->client(), address, deadline, options);
  if (!channel) return channel.status();
  NodeId peer = (*channel)->peer();
  if (peer.key.empty() || (*channel)->protocol() != kLinkProtocol)
    return {Errc::kPeerLost, fmt::format("{}: is not a node of this cluster", address)};
  if (!expected_key.empty() && peer.key != expected_key)
    return {Errc::kInvalidArgument, fmt::format("{}: is node {} with key {:.12}, expected key {:.12}",
                                                address, peer.name, peer.key, expected_key)};
  return std::unique_ptr<Link>(
      std::make_unique<TcpLink>(*std::move(channel), std::move(peer), options, tls->open_links()));
}

}  // namespace butterfly::cluster
