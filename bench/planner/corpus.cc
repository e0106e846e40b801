#include "planner/corpus.h"

#include <fmt/format.h>

#include <cmath>

#include "base/rng.h"

namespace butterfly::bench {

cluster::ClusterSpec corpus_cluster(uint64_t seed, uint64_t index, uint64_t bytes_needed) {
  uint64_t at = 0;
  const auto uniform = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random_u64(seed, index, at++) >> 11) * 0x1p-53;
  };
  const auto log_uniform = [&](double low, double high) {
    return std::exp(uniform(std::log(low), std::log(high)));
  };
  while (true) {
    cluster::ClusterSpec cluster;
    std::vector<cluster::LinkSpec> access;
    const auto nodes = static_cast<size_t>(uniform(3, 9));
    double ram = 0;
    for (size_t i = 0; i < nodes; ++i) {
      cluster::NodeSpec node{.name = fmt::format("n{}", i), .threads = 4};
      const double memory = log_uniform(8e9, 60e9), ops = log_uniform(50e9, 800e9);
      node.memory = {memory / 2, memory};
      node.int8 = {ops / 4, ops};
      node.f32 = {ops / 16, ops / 4};
      node.ram_bytes = static_cast<uint64_t>(log_uniform(4, 64) * 0x1p30);
      ram += static_cast<double>(node.ram_bytes);
      cluster.nodes.push_back(node);
      const bool wireless = uniform(0, 1) < 0.35;
      access.push_back(wireless ? cluster::LinkSpec{uniform(1e-3, 4e-3), uniform(5e6, 50e6)}
                                : cluster::LinkSpec{uniform(1e-4, 3e-4), 117e6});
    }
    cluster.connect_all({});
    for (size_t a = 0; a < nodes; ++a)
      for (size_t b = 0; b < nodes; ++b)
        cluster.link(a, b) = {access[a].latency_s + access[b].latency_s,
                              std::min(access[a].bandwidth, access[b].bandwidth)};
    if (ram > 1.1 * static_cast<double>(bytes_needed)) return cluster;
  }
}

}  // namespace butterfly::bench
