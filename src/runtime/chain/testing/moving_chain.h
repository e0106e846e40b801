// A chain whose stages move between nodes that keep their caches, in one process. For tests.
#pragma once
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/chain/testing/inproc_chain.h"
#include "runtime/engine/stage_cache.h"

namespace butterfly::runtime::testing {

// Nodes 0, 1, ... each with a cache that outlives its stages. The last node of a plan is the coordinator's,
// node 0.
class MovingChain {
 public:
  // `moves`: how caches of layers that leave a node get to the one that has them next; a transfer is cut off
  // after so many requests, one for each layer.
  struct Moves {
    bool sends = false;
    size_t requests_max = SIZE_MAX;
    double seconds = 1e-12;  // as predicted, for each byte
  };
  MovingChain(std::filesystem::path path, const ChainOptions& options, uint64_t kept_bytes,
              const Moves& moves);
  MovingChain(std::filesystem::path path, const ChainOptions& options, uint64_t kept_bytes)
      : MovingChain(std::move(path), options, kept_bytes, Moves{}) {}
  ~MovingChain();

  // `nodes`: of the stages before the coordinator's, in order. `cuts`: as InprocChain's, one for each of
  // them. The chain before must be over and gone.
  std::unique_ptr<Chain> start(const std::vector<size_t>& nodes, const std::vector<size_t>& cuts);
  // Its process died: links and cache are gone.
  void lose(size_t node);
  // All links close; workers end. Caches stay.
  void stop();
  // Nobody computes with the coordinator's cache any more.
  bool coordinator_free() const;
  ChainInfo info() const { return info_; }
  const model::Tokenizer* tokenizer() const { return described_->model->tokenizer.get(); }
  size_t layers() const { return info_.layers; }

 private:
  struct Node {
    std::shared_ptr<StageCache> cache;
    std::vector<std::shared_ptr<const StageCache>> parked;  // what left it, newest last
    std::unique_ptr<LoadedPart> part;
    std::unique_ptr<StageRunner> runner;
    std::vector<std::shared_ptr<cluster::Link>> links;
    std::thread thread;
  };
  ChainOptions options_for(size_t node, const model::LayerRange& range);
  std::shared_ptr<PageSource> source() const;

  const std::filesystem::path path_;
  const ChainOptions options_;
  const uint64_t kept_bytes_;
  const Moves moves_;
  std::unique_ptr<LoadedPart> described_;  // the whole model, for its tokenizer
  ChainInfo info_;
  std::vector<Node> nodes_;
};

}  // namespace butterfly::runtime::testing
