#include "cluster/node/topology.h"

#include <hwloc.h>

#include <memory>

namespace butterfly::cluster {
namespace {

struct Destroy {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
  void operator()(hwloc_bitmap_s* set) const { hwloc_bitmap_free(set); }
};

uint32_t count(hwloc_topology* topology, const hwloc_bitmap_s* cpus, hwloc_obj_type_t type) {
  const int found = hwloc_get_nbobjs_inside_cpuset_by_type(topology, cpus, type);
  return found > 0 ? static_cast<uint32_t>(found) : 0;
}

uint64_t cache_bytes(hwloc_topology* topology, const hwloc_bitmap_s* cpus, hwloc_obj_type_t type) {
  // A cache is shared by more CPUs than the process may use, so it need not lie inside their set.
  for (hwloc_obj_t cache = nullptr; (cache = hwloc_get_next_obj_by_type(topology, type, cache)) != nullptr;)
    if (hwloc_bitmap_intersects(cache->cpuset, cpus) != 0) return cache->attr->cache.size;
  return 0;
}

uint32_t touched(hwloc_topology* topology, const hwloc_bitmap_s* cpus, hwloc_obj_type_t type) {
  uint32_t found = 0;
  for (hwloc_obj_t part = nullptr; (part = hwloc_get_next_obj_by_type(topology, type, part)) != nullptr;)
    if (hwloc_bitmap_intersects(part->cpuset, cpus) != 0) ++found;
  return found;
}

}  // namespace

Topology this_topology() {
  Topology out;
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return out;
  const std::unique_ptr<hwloc_topology, Destroy> topology(raw);
  if (hwloc_topology_load(raw) != 0) return out;
  const std::unique_ptr<hwloc_bitmap_s, Destroy> cpus(hwloc_bitmap_alloc());
  if (cpus == nullptr) return out;
  if (hwloc_get_cpubind(raw, cpus.get(), HWLOC_CPUBIND_PROCESS) != 0)
    hwloc_bitmap_copy(cpus.get(), hwloc_topology_get_allowed_cpuset(raw));
  out.packages = touched(raw, cpus.get(), HWLOC_OBJ_PACKAGE);
  out.numa_nodes = touched(raw, cpus.get(), HWLOC_OBJ_NUMANODE);
  out.cores = touched(raw, cpus.get(), HWLOC_OBJ_CORE);
  out.hardware_threads = count(raw, cpus.get(), HWLOC_OBJ_PU);
  out.l1d_bytes = cache_bytes(raw, cpus.get(), HWLOC_OBJ_L1CACHE);
  out.l2_bytes = cache_bytes(raw, cpus.get(), HWLOC_OBJ_L2CACHE);
  out.l3_bytes = cache_bytes(raw, cpus.get(), HWLOC_OBJ_L3CACHE);
  return out;
}

}  // namespace butterfly::cluster
