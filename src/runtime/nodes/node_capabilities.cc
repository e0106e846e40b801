#include "runtime/nodes/node_capabilities.h"

#include <ctime>

#include "base/mapped_file.h"
#include "cluster/node/capability_file.h"
#include "cluster/node/measure_node.h"

namespace butterfly::runtime {

cluster::Capabilities node_capabilities(const CapabilitySource& source, const cluster::StateFolder& folder,
                                        const std::filesystem::path& weights, ThreadPool& pool) {
  if (!source.file.empty()) return cluster::parse_capabilities(text_of_file(source.file)).or_throw();
  const auto measure = [&] {
    if (source.on_measure) source.on_measure();
    cluster::MeasureOptions options;
    options.program = source.program;
    std::error_code none;  // without the folder the disk is not measured
    std::filesystem::create_directories(weights, none);
    options.disk_folder = weights;
    return cluster::measure_node(pool, options);
  };
  return cluster::load_or_measure(folder, cluster::this_machine(source.program, pool.size()),
                                  std::time(nullptr), false, measure);
}

}  // namespace butterfly::runtime
