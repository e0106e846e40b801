// A 24-layer transformer over three unequal machines: who would run what, and how good that is.
#include <butterfly/cluster.h>

#include <iostream>

int main() {
  butterfly::Cluster cluster({.latency_ms = 0.2, .gbit_per_s = 1});
  cluster.add({.name = "server", .gflops = 800, .memory_gb_per_s = 40, .ram_gb = 0.8, .threads = 16});
  cluster.add({.name = "laptop", .gflops = 300, .memory_gb_per_s = 30, .ram_gb = 0.6, .threads = 8});
  cluster.add({.name = "board", .gflops = 60, .memory_gb_per_s = 8, .ram_gb = 0.45, .threads = 4});
  const butterfly::Transformer model{.layers = 24, .dim = 2048, .heads = 16, .context = 2048};
  for (const std::string& strategy : butterfly::Cluster::strategies())
    std::cout << cluster.partition(model, strategy).text();
}
