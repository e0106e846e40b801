// Links over TCP with mutual TLS 1.3: the transport between machines.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/transport/link.h"
#include "cluster/transport/node_tls.h"

namespace butterfly::cluster {

// A header field of our HTTP server's answer to whoever shakes hands with it: the port they meant.
inline constexpr std::string_view kClusterPortField = "Butterfly-Cluster-Port: ";

struct TcpOptions {
  // How long a receiver looks for a message before it sleeps (see spin.h); 0 sleeps at once.
  Duration spin = std::chrono::microseconds(50);
  // A peer is lost when its machine acknowledges nothing for so long, or its program takes nothing while
  // there is something to take: the system does not tell the two apart, and a long prompt on a slow machine
  // looks like the second. So this is the last resort, and longer than any step; Link::unacknowledged() tells
  // the first one after seconds, and health notices silence.
  Duration user_timeout = std::chrono::seconds(150);
  // From the first byte to proof of identity.
  Duration handshake_timeout = std::chrono::seconds(10);
  // Connections that have not proved themselves. When one more comes, the oldest one from the address with
  // the most of them is closed.
  size_t half_open_max = 32;
  // Records sent with one key. TLS allows AES-GCM some 2^24 (RFC 8446, section 5.5).
  uint64_t records_per_key = 1u << 23;
};

// Memory per link: some 100 KiB in this program, whatever is sent. What was sent and not yet taken waits in
// the system's socket buffers, which are bounded by themselves; then send() blocks. So two nodes that only
// send to each other would both wait until their deadlines: a link is received from in a thread of its own.

// Opens a link to "host:port". `expected_key` is the node's NodeId::key; empty believes any node of the
// cluster. kPeerLost (nobody there, or it refused us), kTimeout, kInvalidArgument (it is another node, or was
// removed).
//
// In TLS 1.3 the client is done before the server has looked at its certificate: what the server thinks of it
// shows with the first message, for which hello.h is there.
Result<std::unique_ptr<Link>> tcp_connect(std::shared_ptr<const NodeTls> tls, const std::string& address,
                                          const std::string& expected_key, Duration timeout,
                                          TcpOptions options = {});

// What a node that wants to join sent, and its address; the answer goes back, and the connection is closed.
using EnrolHandler =
    std::function<std::vector<std::byte>(std::span<const std::byte> body, const std::string& host)>;

// Listens at "host:port" (port 0: any that is free). Handshakes go on only inside accept(), several at once,
// so one thread should always be in it; a slow or hostile caller holds up nobody. Without `enrol` nobody can
// join here.
Result<std::unique_ptr<Listener>> tcp_listen(std::shared_ptr<const NodeTls> tls, const std::string& address,
                                             TcpOptions options = {}, EnrolHandler enrol = nullptr);

}  // namespace butterfly::cluster
