#include "train/task/task.h"

#include "model/formats/model_file.h"
#include "train/networks/image_model.h"

namespace butterfly::train {

Task open_task(const TrainConfig& config, bool with_values) {
  const bool image = !config.model.network.empty() ||
                     (!config.base_model.empty() &&
                      model::open_model(config.base_model).architecture() == kImageArchitecture);
  return image ? open_image_task(config, with_values) : open_text_task(config);
}

}  // namespace butterfly::train
