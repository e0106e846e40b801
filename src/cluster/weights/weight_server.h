// Gives chunks of model files to other nodes.
#pragma once
#include "base/result.h"
#include "cluster/transport/link.h"
#include "cluster/weights/chunk_source.h"
#include "cluster/weights/throttle.h"

namespace butterfly::cluster {

struct WeightServerOptions {
  Duration idle_max = std::chrono::minutes(5);  // without a request the link is closed
  Duration send_timeout = std::chrono::seconds(30);
  Throttle* throttle = nullptr;  // of all that leaves this node
};

// Answers one peer's requests, in order, on the caller's thread, until the link ends: kPeerLost or kCancelled
// are usual ends; kCorrupt for a peer that asks what no program of ours would. The link is closed then.
Status serve_weights(Link& link, const WeightLibrary& library, const WeightServerOptions& options = {});

}  // namespace butterfly::cluster
