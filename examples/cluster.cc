// Plans before buying: a published model on described machines, under load, and when one of them slows down.
#include <butterfly/cluster.h>

#include <iostream>

int main() try {
  butterfly::Cluster cluster({.latency_ms = 0.1, .gbit_per_s = 1});
  for (const char* name : {"pc-1", "pc-2", "pc-3", "pc-4"})
    cluster.add(
        {.name = name, .gflops = 500, .memory_gb_per_s = 40, .ram_gb = 3, .threads = 8, .disk_gb_per_s = 1});
  cluster.connect("pc-1", "pc-2", {.latency_ms = 0.05, .gbit_per_s = 10});

  const butterfly::Partition plan = cluster.partition("llama-8b", "optimal", {.streams = 8, .context = 2048});
  std::cout << plan.text();
  for (const std::string& reason : plan.reasons()) std::cout << "  " << reason << "\n";

  const butterfly::Played played =
      plan.simulate({.requests = 100, .clients = 8, .prompt = 200, .generate = 100});
  std::cout << "eight clients: " << played.tokens_per_s << " tokens/s, first token after "
            << played.first_token_p50_s << " s (half of them)\n";

  const butterfly::Rebalanced slow = plan.balance({{"pc-3", 4.0}});
  std::cout << "pc-3 four times slower: " << slow.reason << "\n" << slow.plan.text();
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
