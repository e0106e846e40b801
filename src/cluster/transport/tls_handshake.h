// The client's side of a handshake, for links and for joining.
#pragma once
#include <memory>
#include <string>

#include "cluster/transport/tcp.h"
#include "cluster/transport/tls_channel.h"

namespace butterfly::cluster {

// Connects and shakes hands. Who answered is the caller's to look at.
Result<std::unique_ptr<TlsChannel>> tls_connect(const TlsContext& context, const std::string& address,
                                                const Deadline& deadline, const TcpOptions& options);

}  // namespace butterfly::cluster
