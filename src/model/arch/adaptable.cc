#include "model/arch/adaptable.h"

#include "model/arch/network.h"

namespace butterfly::model {

std::set<std::string> adaptable_tensors(const ModelFile& file) {
  ThreadPool pool(1);
  WeightLoader weights(file, pool);
  weights.leave_values();
  const ModelConfig config = read_config(file);
  (void)architecture_of(file).load(config, weights, {0, config.layers});
  return weights.adaptable();
}

}  // namespace butterfly::model
