// The rows' functions of optimizer_table.cc.
#pragma once
#include "train/optim/optimizer.h"

namespace butterfly::train {

std::string sgd_why_not(const OptimizerOptions& options);
std::unique_ptr<Optimizer> make_sgd(const OptimizerOptions& options, const ParameterLayout& layout);

// Also of AdamW.
std::string adam_why_not(const OptimizerOptions& options);
std::unique_ptr<Optimizer> make_adam(const OptimizerOptions& options, const ParameterLayout& layout);
std::unique_ptr<Optimizer> make_adamw(const OptimizerOptions& options, const ParameterLayout& layout);

}  // namespace butterfly::train
