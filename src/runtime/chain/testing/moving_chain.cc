#include "runtime/chain/testing/moving_chain.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/log.h"
#include "cluster/transport/inproc.h"
#include "runtime/engine/local_chain.h"
#include "runtime/layers/cached_layers.h"

namespace butterfly::runtime::testing {
namespace {

constexpr size_t kNodes = 5;

// As a cluster that keeps caches: see StageSettings.
ChainOptions keeping(ChainOptions options) {
  options.cache.cut_windows = false;
  return options;
}

cluster::NodeId id_of(size_t index) { return {fmt::format("{:064}", index), fmt::format("node-{}", index)}; }

}  // namespace

MovingChain::MovingChain(std::filesystem::path path, const ChainOptions& options, uint64_t kept_bytes)
    : path_(std::move(path)), options_(keeping(options)), kept_bytes_(kept_bytes), nodes_(kNodes) {
  const size_t layers = model::read_config(model::open_model(path_)).layers;
  described_ = std::make_unique<LoadedPart>(path_, model::LayerRange{0, layers}, 1);
  info_ = chain_info(*described_->model, options_.cache);
}

MovingChain::~MovingChain() { stop(); }

ChainOptions MovingChain::options_for(size_t node, const model::LayerRange& range) {
  std::shared_ptr<StageCache>& cache = nodes_[node].cache;
  if (cache == nullptr) {
    const StageCacheOptions options{.room = cache_room(*described_->model, options_.cache),
                                    .dim = info_.row_cols,
                                    .rows_bytes_max = kept_bytes_};
    cache = std::make_shared<StageCache>(
        model::CacheShape{described_->model->config.states, options_.cache.kv_type}, options);
  }
  BF_CHECK(cache.use_count() == 1 && cache->idle()) << "node " << node << " still has a stage";
  cache->shrink_to(range.begin, range.end);
  ChainOptions options = options_;
  options.cache.stage_cache = cache;
  return options;
}

std::unique_ptr<Chain> MovingChain::start(const std::vector<size_t>& nodes, const std::vector<size_t>& cuts) {
  BF_CHECK(nodes.size() == cuts.size());
  stop();
  const size_t pieces = info_.layers + 2;
  const model::LayerRange last = model::range_of_pieces(cuts.empty() ? 0 : cuts.back(), pieces, info_.layers);
  nodes_[0].part = std::make_unique<LoadedPart>(path_, last, 1);
  const ChainOptions last_options = options_for(0, last);
  if (nodes.empty())
    return std::make_unique<LocalChain>(*nodes_[0].part->model, nodes_[0].part->compute, last_options.cache);
  std::shared_ptr<cluster::Link> to_first, from;
  std::tie(to_first, from) = cluster::inproc_pair(id_of(0), id_of(nodes[0]));
  auto from_last = to_first;
  for (size_t i = 0; i < nodes.size(); ++i) {
    Node& node = nodes_[nodes[i]];
    const model::LayerRange range = model::range_of_pieces(i == 0 ? 0 : cuts[i - 1], cuts[i], info_.layers);
    node.part = std::make_unique<LoadedPart>(path_, range, 1);
    node.runner =
        std::make_unique<StageRunner>(*node.part->model, node.part->compute, i, options_for(nodes[i], range));
    std::shared_ptr<cluster::Link> to = from, next = to_first;
    if (nodes.size() > 1)
      std::tie(to, next) =
          cluster::inproc_pair(id_of(nodes[i]), id_of(i + 1 < nodes.size() ? nodes[i + 1] : 0));
    node.links = {from, to};
    node.thread = std::thread([runner = node.runner.get(), from, to] {
      const Status why = runner->run(from, to);
      if (why.code() == Errc::kCorrupt) log_warn("a stage ended: {}", why.text());
    });
    from = from_last = next;
  }
  return std::make_unique<LinkedChain>(*nodes_[0].part->model, nodes_[0].part->compute, nodes.size(),
                                       to_first, from_last, last_options);
}

void MovingChain::lose(size_t node) {
  for (auto& link : nodes_[node].links) link->close();
  if (nodes_[node].thread.joinable()) nodes_[node].thread.join();
  nodes_[node].runner.reset();
  nodes_[node].links.clear();
  nodes_[node].cache.reset();
}

void MovingChain::stop() {
  for (Node& node : nodes_) {
    for (auto& link : node.links) link->close();
    if (node.thread.joinable()) node.thread.join();
    node.runner.reset();
    node.links.clear();
  }
}

bool MovingChain::coordinator_free() const {
  return nodes_[0].cache == nullptr || (nodes_[0].cache.use_count() == 1 && nodes_[0].cache->idle());
}

}  // namespace butterfly::runtime::testing
