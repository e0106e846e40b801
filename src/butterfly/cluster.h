// Planning for clusters: who would run what of a model, how well, and what to do when a machine slows down.
// Nothing here needs the machines: they are described.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace butterfly {

// What a machine can do.
struct Node {
  std::string name;
  double gflops = 100;          // f32, all threads
  double memory_gb_per_s = 20;  // read, all threads
  double ram_gb = 8;            // free for weights and caches
  size_t threads = 4;
  double disk_gb_per_s = 0;  // 0: not known
};

// One direction between two machines.
struct Link {
  double latency_ms = 0.2;
  double gbit_per_s = 1;
};

// A model that need not exist yet.
struct Transformer {
  size_t layers = 32;
  size_t dim = 4096;
  size_t heads = 32;
  size_t kv_heads = 0;  // 0: as many as heads
  size_t hidden = 0;    // of the feed-forward part; 0: four times dim
  size_t vocabulary = 32000;
  size_t context = 4096;
  std::string weights = "Q4_0";  // GGUF's name of their type
};

// For whom the plan is made.
struct Demand {
  size_t streams = 1;   // texts at once; 1: the shortest time to a token, more: the most tokens in a second
  size_t prompt = 512;  // tokens
  size_t context = 0;   // positions of each stream; 0: the model's, up to 4096
  bool share_layers = false;  // nodes may share each layer (tensor parallel)
};

// Neighbouring layers on one node, or shared by several.
struct Part {
  std::vector<std::string> nodes;
  std::vector<double> shares;  // one per node, sum 1
  size_t first_layer = 0, layer_count = 0;
  bool embedding = false, head = false;  // it also has these
  double ms = 0;                         // of one step
  double memory_gb = 0, room_gb = 0;
};

struct Quality {
  double ms_per_token = 0;     // of one text: all parts and all hops
  double tokens_per_s = 0;     // of all texts
  double first_token_s = 0;    // the prompt through all parts
  double bound_ms = 0;         // no plan does better in what was minimised; 0: nothing was proved
  double gap = 0;              // how far the plan is above the bound: 0.02 is 2 %
  double load_balance = 0;     // mean / longest time of the parts, in (0, 1]
  double bytes_per_token = 0;  // over all links
  size_t hops = 0;
};

// Requests to play against a plan, on a virtual clock.
struct Load {
  size_t requests = 200;
  double per_second = 0;  // arrivals; 0: `clients` that ask again when they have their answer
  size_t clients = 1;
  size_t prompt = 128, generate = 64;  // tokens
  size_t batch_max = 8;                // texts in one step
  uint64_t seed = 1;
};

struct Played {
  double seconds = 0;
  double tokens_per_s = 0;
  double first_token_p50_s = 0, first_token_p95_s = 0;
  double token_p50_s = 0, token_p95_s = 0;  // between two tokens of a text
  std::vector<double> busy;                 // by part: share of the time
};

struct Rebalanced;

// A plan with all that is known of it. Immutable; cheap to copy.
class Partition {
 public:
  const std::string& strategy() const;
  const std::vector<Part>& parts() const;
  const Quality& quality() const;
  const std::vector<std::string>& reasons() const;  // in words
  std::string text() const;                         // a few lines for people

  // Nodes turn out slower than described (2: everything takes twice as long; missing ones are as described):
  // whether another plan pays, and which.
  Rebalanced balance(const std::map<std::string, double>& slowness) const;
  Played simulate(const Load& load = {}) const;

 private:
  friend class Cluster;
  struct Impl;
  explicit Partition(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

struct Rebalanced {
  bool move = false;
  Partition plan;        // the better one, or the same, with figures for the speeds given
  double ms_before = 0;  // of what is minimised, at these speeds
  double ms_after = 0;
  double moving_s = 0;  // loading what moves, and rebuilding its caches
  std::string reason;   // in words, also when nothing moves
};

// Machines and links. Plain values; nothing is contacted. Throws std::runtime_error naming the node and what
// is wrong.
class Cluster {
 public:
  explicit Cluster(Link everywhere = {}) : everywhere_(everywhere) {}

  // The first node is the one that requests come to.
  void add(Node node);
  // Both directions.
  void connect(const std::string& from, const std::string& to, Link link);
  const std::vector<Node>& nodes() const { return nodes_; }

  static std::vector<std::string> strategies();  // the default first
  Partition partition(const Transformer& model, const std::string& strategy = "optimal",
                      const Demand& demand = {}) const;
  // Of a model file, or a published shape by its name: "llama-8b".
  Partition partition(const std::string& model, const std::string& strategy = "optimal",
                      const Demand& demand = {}) const;

 private:
  size_t index_of(const std::string& name) const;
  Link everywhere_;
  std::vector<Node> nodes_;
  std::map<std::pair<size_t, size_t>, Link> links_;  // from, to; others are as everywhere
};

}  // namespace butterfly
