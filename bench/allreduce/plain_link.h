// A Link over a plain TCP connection: frames without TLS, to see what TLS costs. For benches only; between
// machines there is no such link.
#pragma once
#include <memory>

#include "cluster/transport/link.h"

namespace butterfly::bench {

// Of a connected socket, which it closes. Threads as Link has it. No deadlines: a bench ends or is ended.
std::unique_ptr<cluster::Link> plain_link(int socket, cluster::NodeId peer);

}  // namespace butterfly::bench
