// What a network says while it learns: the likeliest token after token, over a small cache of its own.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "model/arch/network.h"

namespace butterfly::train {

// At most `count` tokens behind the prompt, up to the first that `ends` says yes to, which is not among them.
// Computes with the weights as they are now, in the pool's threads.
std::vector<int32_t> greedy_tokens(const model::Network& network, const model::ModelConfig& config,
                                   std::span<const int32_t> prompt, size_t count,
                                   const std::function<bool(int32_t)>& ends, ThreadPool& pool);

}  // namespace butterfly::train
