#include "train/task/task.h"

#include <tuple>

#include "model/formats/model_file.h"
#include "train/data/split_dataset.h"
#include "train/networks/image_model.h"
#include "train/networks/transformer.h"
#include "train/task/lora.h"

namespace butterfly::train {

Task open_task(const TrainConfig& config, bool with_values, model::PackedWeights* packed) {
  const bool image = !config.model.network.empty() ||
                     (!config.base_model.empty() &&
                      model::open_model(config.base_model).architecture() == kImageArchitecture);
  Task task = image ? open_image_task(config, with_values) : open_text_task(config, packed);
  if (config.val_set_size > 0 && task.data != nullptr && task.test_data == nullptr) {
    const uint64_t kept = kept_items(task.data->size(), config.val_set_size);
    std::tie(task.data, task.test_data) = split(std::move(task.data), kept, config.seed);
  }
  return task;
}

std::unique_ptr<TrainableNetwork> open_network(const TrainConfig& config, const std::filesystem::path& file) {
  const model::ModelFile model = model::open_model(file);
  if (!config.adapter.empty()) return open_lora_network(config, model);
  if (model.architecture() != kImageArchitecture)
    return std::make_unique<Transformer>(
        model,
        TransformerOptions{.length = config.sequence_len, .dropout = static_cast<float>(config.dropout)});
  auto network = std::make_unique<ImageNetwork>(image_description(model), file.string(), config.seed,
                                                /*with_values=*/false);
  read_image_weights(model, *network);
  return network;
}

}  // namespace butterfly::train
