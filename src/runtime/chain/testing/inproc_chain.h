// A chain whose stages are threads of this process, with links in memory. For tests and benches.
#pragma once
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/chain/linked_chain.h"
#include "runtime/chain/stage_runner.h"

namespace butterfly::runtime::testing {

// A range of a model with threads of its own.
struct LoadedPart {
  LoadedPart(const std::filesystem::path& path, const model::LayerRange& range, size_t threads);
  Compute compute;
  std::unique_ptr<LoadedModel> model;
};

// Loads the parts once; stages may be made of them again and again.
class InprocChain {
 public:
  // `cuts` are the pieces where a new stage begins (see range_of_pieces()): {1, 4} makes three stages.
  InprocChain(const std::filesystem::path& path, const std::vector<size_t>& cuts,
              const ChainOptions& options = {}, size_t threads = 1);
  ~InprocChain();

  // New links, and a new run of every worker. Ends the chain before. `times` may be null.
  std::unique_ptr<LinkedChain> start(std::shared_ptr<ChainTimes> times = nullptr);
  // The worker's links are gone, as if its process had died.
  void lose(size_t worker);
  // Waits until all workers have ended and says why: of the last start().
  std::vector<Status> ends();

  size_t stages() const { return parts_.size(); }
  StageRunner& worker(size_t index) { return *workers_[index]; }
  const LoadedModel& part(size_t index) const { return *parts_[index]->model; }

 private:
  ChainOptions options_;
  std::vector<std::unique_ptr<LoadedPart>> parts_;
  std::vector<std::unique_ptr<StageRunner>> workers_;
  std::vector<std::shared_ptr<cluster::Link>> links_;
  std::vector<std::vector<std::shared_ptr<cluster::Link>>> ends_of_worker_;
  std::vector<std::thread> threads_;
  std::vector<Status> ends_;
};

}  // namespace butterfly::runtime::testing
