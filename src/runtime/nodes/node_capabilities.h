// What this machine can do, as a node that starts says it: told, remembered or measured.
#pragma once
#include <filesystem>
#include <functional>
#include <string>

#include "base/thread_pool.h"
#include "cluster/identity/state_folder.h"
#include "cluster/node/capabilities.h"

namespace butterfly::runtime {

struct CapabilitySource {
  std::filesystem::path file;        // if there is one, it is believed
  std::string program;               // version and revision: measurements of others are done again
  std::function<void()> on_measure;  // called before a measurement, which takes seconds; may be null
};

// From `source.file`; else as measured before and kept in `folder`, or measured now. `weights`: where fetched
// weights lie, whose disk is measured. Throws Error kCorrupt for a file that cannot be read.
cluster::Capabilities node_capabilities(const CapabilitySource& source, const cluster::StateFolder& folder,
                                        const std::filesystem::path& weights, ThreadPool& pool);

}  // namespace butterfly::runtime
