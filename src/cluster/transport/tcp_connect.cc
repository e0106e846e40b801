#include <fmt/core.h>
#include <poll.h>

#include <algorithm>

#include "cluster/transport/tcp.h"
#include "cluster/transport/tcp_link.h"
#include "cluster/transport/tls_handshake.h"

namespace butterfly::cluster {
namespace {

// Our own server says there which port is the right one.
std::string an_http_port(const std::string& address, const std::string& head) {
  const size_t at = head.find(kClusterPortField);
  const size_t begin = at == std::string::npos ? at : at + kClusterPortField.size();
  const size_t end = head.find_first_not_of("0123456789", begin == std::string::npos ? 0 : begin);
  if (begin != std::string::npos && end > begin && end - begin <= 5)
    return fmt::format("{}: this is an HTTP port; the cluster's port there is {}", address,
                       head.substr(begin, end - begin));
  return fmt::format(
      "{}: this is an HTTP port; nodes join at the cluster's port, which the line of "
      "'butterfly token new' has",
      address);
}

}  // namespace

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
    if (step == TlsChannel::Step::kFailed && channel->speaks_http())
      return {Errc::kInvalidArgument, an_http_port(address, channel->http_answer(handshake))};
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
