// The network and trainer of a member, from what the leader sent; and what all members must agree on.
#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "cluster/training/train_message.h"
#include "cluster/wire/packing_switch.h"
#include "train/train_run.h"

namespace butterfly::runtime {

// What a member trains. The trainer borrows the network.
struct MemberNetwork {
  std::unique_ptr<train::TrainableNetwork> network;
  std::unique_ptr<train::Trainer> trainer;
};

// From the lines of the config and a model file. `threads`: of this node; 0: all CPUs. Throws Error.
MemberNetwork open_member(train::TrainConfig config, uint64_t steps, const std::filesystem::path& model,
                          size_t threads);

// How values are compressed on links.
cluster::PackingOptions packing_options(const train::TrainConfig& config);

// SHA-256 of the rules of arithmetic, the optimizer and every parameter's name, shape, type and role, in
// their order: members whose hashes differ would sum up what does not belong together.
std::string agreement_of(const train::TrainConfig& config, train::Trainer& trainer);

// SHA-256 of all parameters, in their order.
std::string parameters_hash(const train::Trainer& trainer);

}  // namespace butterfly::runtime
