// A cluster's state as a page of text.
#pragma once
#include <string>

#include "cluster/member/status.h"

namespace butterfly::cli {

// A line on what is served, the table NAME STATE ROLE CPU RAM LAYERS TOK/S LINK VERSION, what the loss of
// each node would mean, the last failure and the last events. Ends with a newline.
std::string status_text(const cluster::ClusterStatus& status, size_t events_max = 5);

}  // namespace butterfly::cli
