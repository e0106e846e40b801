// What `join` and `serve --cluster` have in common: what this machine can do, where its models are.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/nodes/model_weights.h"
#include "runtime/nodes/node_capabilities.h"

namespace butterfly::cli {

// What this machine can do: from `file` if there is one; that it has to be measured is said.
runtime::CapabilitySource capability_source(const std::string& file);
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
