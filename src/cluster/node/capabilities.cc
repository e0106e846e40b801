#include "cluster/node/capabilities.h"

#include "cluster/node/cpu_share.h"
#include "cluster/node/kernel_rates.h"
#include "kernels/matmul/matmul.h"

namespace butterfly::cluster {
namespace {

// The row of this type; else of one that is computed alike.
const TypeRates* rates_for(const Capabilities& capabilities, DType type) {
  const TypeRates* alike = nullptr;
  const auto kind = kernels::act_kind(type);
  for (const TypeRates& row : capabilities.kernels) {
    const auto measured = dtype_by_name(row.type);
    if (!measured || !(row.weight_bytes_per_s.all > 0) || !(row.operations_per_s.all > 0)) continue;
    if (*measured == type) return &row;
    if (alike == nullptr && kernels::act_kind(*measured) == kind) alike = &row;
  }
  return alike;
}

}  // namespace

NodeSpec node_spec(const Capabilities& capabilities, const std::string& name, DType type,
                   uint64_t ram_bytes) {
  NodeSpec node;
  node.name = name;
  node.threads = capabilities.threads;
  node.f32 = capabilities.f32;
  node.int8 = capabilities.int8;
  node.memory = capabilities.memory;
  node.ram_bytes = ram_bytes;
  node.disk = capabilities.disk;
  node.other_efficiency = 0.12;  // as in node_from_probe()
  if (const TypeRates* rates = rates_for(capabilities, type))
    calibrate(node, {rates->weight_bytes_per_s.all, rates->operations_per_s.all}, type);
  apply_share(node, capabilities.cpu_share);
  return node;
}

}  // namespace butterfly::cluster
