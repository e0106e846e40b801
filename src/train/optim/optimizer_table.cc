#include "base/error.h"
#include "train/optim/rows.h"

namespace butterfly::train {
namespace {

constexpr OptimizerRow kOptimizers[] = {
    {"adamw", "Adam, with weights that decay apart from the gradient", adam_why_not, make_adamw},
    {"adam", "Adam, with decay as part of the gradient", adam_why_not, make_adam},
    {"sgd", "stochastic gradient descent, with momentum if asked for", sgd_why_not, make_sgd},
};

}  // namespace

std::span<const OptimizerRow> optimizer_table() { return kOptimizers; }

std::string_view optimizer_names() {
  static const std::string names = [] {
    std::string all;
    for (const OptimizerRow& row : kOptimizers) all += (all.empty() ? "" : ", ") + std::string(row.name);
    return all;
  }();
  return names;
}

const OptimizerRow& checked_optimizer(const OptimizerOptions& options) {
  for (const OptimizerRow& row : kOptimizers) {
    if (row.name != options.name) continue;
    const std::string why_not = row.why_not(options);
    if (!why_not.empty()) fail(Errc::kInvalidArgument, "{}", why_not);
    return row;
  }
  fail(Errc::kInvalidArgument, "optimizer '{}': expected one of {}", options.name, optimizer_names());
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, const ParameterLayout& layout) {
  return checked_optimizer(options).make(options, layout);
}

}  // namespace butterfly::train
