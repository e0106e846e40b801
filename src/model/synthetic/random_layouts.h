// The layouts behind random_architectures(), one file per architecture.
#pragma once
#include "model/synthetic/random_model.h"

namespace butterfly::model {

void add_llama_metadata(const RandomModelOptions& options, Metadata& metadata);
std::vector<TensorPlan> plan_llama(const RandomModelOptions& options);

}  // namespace butterfly::model
