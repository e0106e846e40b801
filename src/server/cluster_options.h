// A server on a cluster: what its settings mean to the coordinator.
#pragma once
#include <string>
#include <vector>

#include "runtime/nodes/cluster_host.h"
#include "server/models/served_model.h"
#include "server/settings/settings.h"

namespace butterfly::server {

// Throws Error for settings that do not go together.
void check_cluster_settings(const Settings& settings, bool is_cluster = false);

// Models, their placement and what the coordinator waits for. Borrows what computes.
// One of its models.
runtime::HostedModelOptions hosted_model(const Settings& settings, const ModelSpec& spec,
                                         const ModelOptions& options);
runtime::ClusterHostOptions cluster_options(const Settings& settings, const std::vector<ModelSpec>& specs,
                                            const ModelOptions& options, Compute& compute);

}  // namespace butterfly::server
