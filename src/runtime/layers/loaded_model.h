// A model in memory: file, numbers, layers and tokenizer.
#pragma once
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "model/arch/adapter_sites.h"
#include "model/arch/network.h"
#include "model/formats/model_file.h"
#include "model/tokenizer/tokenizer.h"

namespace butterfly::model {
class Predictor;
}

namespace butterfly::runtime {

// What models over the same file share: its matrices, packed. They differ in their adapters.
struct SharedWeights {
  model::PackedWeights packed;
  uint64_t file_bytes = 0;
  std::filesystem::file_time_type modified{};
};

// Immutable once loaded; stages borrow it.
struct LoadedModel {
  model::ModelFile file;
  model::ModelConfig config;
  model::LayerRange range;  // that `network` has
  model::GroupShare group;  // and which part of it, with whom; config.states are this member's
  std::unique_ptr<model::Network> network;
  std::shared_ptr<const model::Predictor> predictor;  // null: none, or not asked for
  std::unique_ptr<model::Tokenizer> tokenizer;        // null where the file has none
  std::chrono::nanoseconds load_time{};
  uint64_t packed_bytes = 0;    // weights copied out of the file, for this model alone
  uint64_t resident_bytes = 0;  // of all weights, as the layers hold them
  // Where layers take adapters that rows name, if that was asked for.
  std::vector<model::AdapterSite> adapter_sites;
  std::shared_ptr<SharedWeights> weights;  // for others over the same file; null unless asked for

  bool has_embedding() const { return range.has_embedding(); }
  bool has_head() const { return range.has_head(config.layers); }
  bool is_whole() const { return has_embedding() && has_head(); }

  // Throws Error kNotFound when there is none.
  const model::Tokenizer& tokenizer_or_throw() const;
};

struct LoadOptions {
  std::filesystem::path tokenizer_path;      // for formats that keep it apart
  FileAccess access = FileAccess::kMap;      // of the model's files
  bool with_tokenizer = true;                // false: ids only, for benchmarks
  bool with_predictor = false;               // also the block that predicts ahead, of a whole model
  size_t context = 0;                        // positions the run will use; 0: the model's context
  std::vector<model::AdapterSpec> adapters;  // added to the model's matrices, in order
  bool adapter_sites = false;                // of a whole model: rows may name adapters when it runs
  model::LoadProgress progress = {};
  uint64_t progress_bytes = 0;  // of the file that will be read, if known; 0: all tensors of the range
  // The part of the chain to load; values of other tensors are not read. Not set: the whole model.
  std::optional<model::LayerRange> range = std::nullopt;
  // The part of each of its layers to load, where a group computes them together.
  model::GroupShare group = {};
  // Matrices are put here, and those that are here already are taken. Ignored if the file has changed since.
  // One load at a time may have it.
  std::shared_ptr<SharedWeights> weights = nullptr;
};

// Opens and loads the model, or a part of it, with all CPUs when `pool` has fewer. Throws Error that names
// the file, the place, the expected and the found.
std::unique_ptr<LoadedModel> load_model(const std::filesystem::path& path, ThreadPool& pool,
                                        const LoadOptions& options = {});

}  // namespace butterfly::runtime
