// Plays steps of data-parallel training on a virtual clock: what a step takes on nodes and links that are not
// there.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace butterfly::cluster {

struct StepSimNode {
  std::string name = {};
  double micro_batch_s = 0;  // forward and backward pass of one
  double update_s = 0;       // coding, reducing and the optimizer, of a step; the same in every mode
  double bandwidth = 0;      // bytes per second, each way
  double latency_s = 0;      // of a message from or to it
};

struct StepSimMode {
  std::string_view name;
  double gradient_bytes = 4;  // of a parameter
  bool local = false;         // gradients are sent when all is computed, not beside it
};
// Every mode that gradients go in, exact first.
std::vector<StepSimMode> step_sim_modes();

struct StepSimSpec {
  uint64_t parameters = 0;
  size_t micro_batches = 0;
  uint64_t bucket_bytes = 4 << 20;  // of floats
  std::vector<StepSimNode> nodes = {};
};

struct StepSimReport {
  std::string_view mode;
  double step_s = 0;
  double compute_s = 0;   // of the node that computes longest
  double prepared_s = 0;  // when the last owner has its sums
  double bytes = 0;       // that all nodes send
  double busiest = 0;     // part of the step in which the busiest link is in use
};

// A node computes its micro-batches, dealt by speed, one behind the other; in the backward pass of the last
// (two thirds of its time) buckets leave as they are made, one behind the other, for their owners. A message
// takes the sender's link for bytes / its bandwidth, and the receiver's as long; what waits for the receiver
// does not hold up the sender. Owners update when all have their sums and the word of the first node came,
// and send their weights to all. The step ends when everybody has everything. Same inputs, same result.
StepSimReport simulate_step(const StepSimSpec& spec, const StepSimMode& mode);

// TOML: parameters, micro_batches, bucket_bytes, and [[node]] tables: count, name, micro_batch_ms, update_ms,
// mbit, latency_ms. Throws Error kInvalidArgument naming key, expected and found.
StepSimSpec parse_step_sim(std::string_view text, std::string_view name);
StepSimSpec read_step_sim(const std::filesystem::path& path);

}  // namespace butterfly::cluster
