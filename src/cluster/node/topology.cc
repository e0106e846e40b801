#include "cluster/node/topology.h"

#include <hwloc.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

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

using TopologyPtr = std::unique_ptr<hwloc_topology, Destroy>;

// Null where the system does not say.
TopologyPtr load(const std::string& machine = {}) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return nullptr;
  TopologyPtr topology(raw);
  if (!machine.empty() && hwloc_topology_set_synthetic(raw, machine.c_str()) != 0) return nullptr;
  return hwloc_topology_load(raw) == 0 ? std::move(topology) : nullptr;
}

// CPUs by NUMA node, each in the order in which its cores stand; those that are nowhere are the last.
std::vector<std::vector<int>> cpus_by_memory(const std::vector<int>& cpus, const std::string& machine) {
  std::set<int> left(cpus.begin(), cpus.end());
  std::vector<std::vector<int>> rooms;
  const TopologyPtr topology = load(machine);
  hwloc_obj_t node = nullptr;
  while (topology != nullptr &&
         (node = hwloc_get_next_obj_by_type(topology.get(), HWLOC_OBJ_NUMANODE, node)) != nullptr) {
    std::vector<int> room;
    for (hwloc_obj_t pu = nullptr; (pu = hwloc_get_next_obj_inside_cpuset_by_type(
                                        topology.get(), node->cpuset, HWLOC_OBJ_PU, pu)) != nullptr;)
      if (left.erase(static_cast<int>(pu->os_index)) > 0) room.push_back(static_cast<int>(pu->os_index));
    if (!room.empty()) rooms.push_back(std::move(room));
  }
  if (!left.empty()) rooms.emplace_back(left.begin(), left.end());
  return rooms;
}

// How many of `count` nodes are in each room, by CPUs, largest remainders first; at least one in each.
std::vector<size_t> nodes_of_rooms(const std::vector<std::vector<int>>& rooms, size_t count, size_t cpus) {
  std::vector<size_t> nodes(rooms.size(), 1);
  for (size_t placed = rooms.size(); placed < count; ++placed) {
    const auto missing = [&](size_t i) {
      return static_cast<double>(rooms[i].size() * count) / static_cast<double>(cpus) -
             static_cast<double>(nodes[i]);
    };
    size_t most = 0;
    for (size_t i = 1; i < rooms.size(); ++i)
      if (missing(i) > missing(most)) most = i;
    ++nodes[most];
  }
  return nodes;
}

// Part `index` of `count` of these.
std::vector<int> part_of(const std::vector<int>& cpus, size_t index, size_t count) {
  const size_t begin = index * cpus.size() / count, end = (index + 1) * cpus.size() / count;
  return {cpus.begin() + static_cast<ptrdiff_t>(begin), cpus.begin() + static_cast<ptrdiff_t>(end)};
}

}  // namespace

std::vector<std::vector<int>> cpus_of_nodes(const std::vector<int>& cpus, size_t count,
                                            const std::string& machine) {
  const auto rooms = cpus_by_memory(cpus, machine);
  std::vector<std::vector<int>> shares;
  for (size_t i = 0; cpus.size() < count && i < count; ++i) shares.push_back({cpus[i % cpus.size()]});
  if (cpus.size() < count) return shares;
  if (count >= rooms.size()) {
    const auto nodes = nodes_of_rooms(rooms, count, cpus.size());
    for (size_t i = 0; i < rooms.size(); ++i)
      for (size_t k = 0; k < nodes[i]; ++k) shares.push_back(part_of(rooms[i], k, nodes[i]));
    return shares;
  }
  std::vector<int> all;
  for (const auto& room : rooms) all.insert(all.end(), room.begin(), room.end());
  for (size_t i = 0; i < count; ++i) shares.push_back(part_of(all, i, count));
  return shares;
}

Topology this_topology() {
  Topology out;
  const TopologyPtr topology = load();
  if (topology == nullptr) return out;
  hwloc_topology_t raw = topology.get();
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
