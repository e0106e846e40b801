// Settings for a fine-tuning run that nobody has to think about: from the data, the model and what was asked.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "train/task/config.h"

namespace butterfly::train {

// What the data looks like to the model.
struct DataFacts {
  uint64_t documents = 0;
  uint64_t pairs = 0;  // of answers, for rl: dpo: each stands alone
  uint64_t tokens = 0;
  size_t longest = 0;  // document, in tokens
  size_t usual = 0;    // nineteen of twenty are at most so long
};
// Of all datasets of the config, read as the run will read them. Throws Error as the run would.
DataFacts survey_data(const TrainConfig& config);

struct Tuning {
  TrainConfig config;
  std::vector<std::string> words;  // what was chosen and why, a line each
};
// Chooses every key that is not in `given`. `context` and `width` are the model's.
Tuning choose_tuning(TrainConfig config, const std::set<std::string>& given, const DataFacts& facts,
                     size_t context, size_t width);
// The same for the model that base_model names.
Tuning choose_tuning(TrainConfig config, const std::set<std::string>& given);

}  // namespace butterfly::train
