// `serve` on a cluster: of the machines that joined, or of processes of this one.
#pragma once
#include <memory>

#include "server/server.h"

namespace butterfly::cli {

// Fills in what a server on a cluster needs, if the settings ask for one. For local nodes it sets the threads
// of each. Keep what is returned until the server is gone: it holds the nodes. Throws Error for settings that
// do not go together.
[[nodiscard]] std::shared_ptr<void> prepare_cluster(server::ServerOptions& options);

}  // namespace butterfly::cli
