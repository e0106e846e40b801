// What `join` and `serve --cluster` have in common: what this machine can do, where its models are.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "cluster/identity/state_folder.h"
#include "cluster/node/capabilities.h"
#include "runtime/nodes/model_weights.h"

namespace butterfly::cli {

// From `file` if there is one; else as measured before, or measured now, which takes seconds and is said.
// `weights`: the folder where fetched weights lie, whose disk is measured.
cluster::Capabilities node_capabilities(const std::string& file, const cluster::StateFolder& folder,
                                        const std::filesystem::path& weights, ThreadPool& pool);
// Version and revision of this program, as measurements are kept with it.
std::string program_text();

// The cache, the folders of the model store, and those of the files named.
runtime::WeightPlaces weight_places(const std::string& cache, const std::vector<std::string>& models);

// A name that a node may have, from the host's.
std::string default_node_name();

// True from the first SIGTERM or Ctrl-C on, after install_end_signals().
void install_end_signals();
bool end_asked_for();

}  // namespace butterfly::cli
