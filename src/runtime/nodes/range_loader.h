// Gets a node's part of a model into memory: weights onto the disk, a look at the memory, then the layers.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>

#include "base/compute.h"
#include "cluster/member/control_message.h"
#include "cluster/transport/hello.h"
#include "cluster/transport/transport_table.h"
#include "cluster/weights/chunk_source.h"
#include "runtime/chain/stage_settings.h"
#include "runtime/layers/loaded_model.h"
#include "runtime/nodes/model_weights.h"
#include "runtime/nodes/node_memory.h"
#include "runtime/planning/memory_forecast.h"

namespace butterfly::runtime {

class ParkedCaches;

struct RangeLoaderOptions {
  cluster::JobId job = 0;                         // whose part it is
  std::shared_ptr<cluster::Transport> transport;  // to peers with weights
  cluster::NodeId self;
  cluster::Hello hello;
  WeightPlaces places;
  std::shared_ptr<cluster::WeightLibrary>
      library;                     // what this node can give to others: grows by what it fetched
  Compute* compute = nullptr;      // borrowed; what runs the steps: loading has as many threads of its own
  uint64_t fetch_bytes_per_s = 0;  // 0: as fast as it goes
  std::shared_ptr<NodeMemory> memory = std::make_shared<NodeMemory>();  // which the jobs of a node share
  std::shared_ptr<ParkedCaches> parked = {};  // caches of layers that left; null: they are not kept
};

// One part of one job's model at a time. prepare(), load() and free() come from one thread; progress() from
// any.
class RangeLoader {
 public:
  explicit RangeLoader(RangeLoaderOptions options) : options_(std::move(options)) {}

  // What load() needs is on this machine then, adapters too. Throws Error: where it cannot be had,
  // kOutOfMemory with figures, kCancelled.
  void prepare(const cluster::Assignment& work, const std::atomic<bool>& cancelled);
  // Matrices that are in memory already stay and are not read again. `kept_bytes`: of the cache that stays,
  // which the new stage goes on with.
  std::shared_ptr<const LoadedModel> load(const cluster::Assignment& work, const std::atomic<bool>& cancelled,
                                          uint64_t kept_bytes = 0);
  void free();

  struct Progress {
    uint64_t done = 0, total = 0;  // bytes of what is under way
    uint64_t moves = 0;            // grows with every piece of work
  };
  Progress progress() const;
  static Result<StageSettings> settings_of(const cluster::Assignment& work) {
    return StageSettings::parse(work.model.settings);
  }

 private:
  PreparedWeights prepare_model(const cluster::Assignment& work, const std::atomic<bool>& cancelled);
  std::vector<model::AdapterSpec> prepare_adapters(const cluster::Assignment& work,
                                                   const StageSettings& settings,
                                                   const std::atomic<bool>& cancelled);
  cluster::FetchOptions fetch_options(const std::atomic<bool>& cancelled);
  std::vector<cluster::WeightPeer> peers_of(const cluster::Assignment& work) const;
  void moved(uint64_t done, uint64_t total);
  void let_go(const std::atomic<bool>& cancelled);
  void check_memory(const MemoryForecast& forecast, const std::string& what);
  void keep_matrices(const cluster::Assignment& work, const model::LayerRange& range,
                     const model::ModelFile& file, size_t layers);
  std::shared_ptr<const LoadedModel> load_range(const cluster::Assignment& work,
                                                const StageSettings& settings,
                                                const std::filesystem::path& path,
                                                std::vector<model::AdapterSpec> adapters,
                                                const std::atomic<bool>& cancelled, uint64_t kept_bytes);

  const RangeLoaderOptions options_;
  std::shared_ptr<const LoadedModel> loaded_;
  std::string loaded_for_;                  // model, settings, pieces and share
  std::shared_ptr<SharedWeights> weights_;  // the matrices of loaded_
  std::string weights_for_;                 // model and share
  std::atomic<uint64_t> done_{0}, total_{0}, moves_{0};
};

}  // namespace butterfly::runtime
