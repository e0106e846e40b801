// What a training run learns: a network, its data, and how the result is written. One file for each kind.
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/thread_pool.h"
#include "model/arch/weights.h"
#include "train/data/dataset.h"
#include "train/task/config.h"
#include "train/trainer/network.h"

namespace butterfly::train {

struct Task {
  std::unique_ptr<TrainableNetwork> network;
  std::unique_ptr<Dataset> data;       // null: the config names none
  std::unique_ptr<Dataset> test_data;  // the same
  size_t targets = 1;                  // of one item
  // Of images that are changed anew every time they are seen: BatchOrderOptions::change.
  std::function<void(uint64_t batch, size_t row, const ItemView& item)> change = {};
  bool counts_items = false;  // the loss is the mean of items, not of targets
  std::string words;          // one line for dry runs
  std::string details;        // lines behind it, for dry runs
  std::string_view unit;      // what a target is called: "tokens", "images"
  // What decides the result besides the config's own keys: checkpoints of other values are refused.
  std::map<std::string, std::string> settings;
  // Writes the weights as they are now into the folder and says under which name.
  std::function<std::filesystem::path(const std::filesystem::path& folder)> write;
  // What it answers to a question now, of so many tokens at most; empty: this kind of network says nothing.
  std::function<std::string(const std::string& question, size_t tokens, ThreadPool& pool)> sample;
  // The network as it is now, with floats, into one file: open_network() makes the same of it elsewhere.
  std::function<void(const std::filesystem::path& file)> write_network;
};

// Opens what the config names: an image network where it names one, else a transformer. Throws Error naming
// the file for what cannot be read, and for data that does not fit the network. `with_values` false: fresh
// weights get memory that nobody touches, for dry runs. `packed`: matrices of the base_model that are in
// memory already; null: none are. For adapters, which leave them as they are.
Task open_task(const TrainConfig& config, bool with_values = true, model::PackedWeights* packed = nullptr);

// A network alone, as Task::write_network() wrote it, for a machine that has neither data nor tokenizer.
std::unique_ptr<TrainableNetwork> open_network(const TrainConfig& config, const std::filesystem::path& file);

// The rows of open_task().
Task open_text_task(const TrainConfig& config, model::PackedWeights* packed);
Task open_image_task(const TrainConfig& config, bool with_values);

}  // namespace butterfly::train
