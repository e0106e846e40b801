#include "runtime/chain/testing/moving_chain.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "cluster/transport/inproc.h"
#include "runtime/chain/page_transfer.h"
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

// Parts of caches that left a node, for whoever asks.
class Parts final : public PageStore {
 public:
  Parts(std::vector<std::shared_ptr<const StageCache>> parts, size_t requests_max)
      : parts_(std::move(parts)), left_(requests_max) {}
  std::shared_ptr<const StageCache> find(const LayersOf& layers) override {
    if (left_ == 0) return nullptr;  // a request at a time
    --left_;
    for (const auto& part : parts_)
      if (part->begin() <= layers.begin && part->end() >= layers.end) return part;
    return nullptr;
  }
  void done(const LayersOf&) override {}

 private:
  const std::vector<std::shared_ptr<const StageCache>> parts_;
  size_t left_;
};

// Layer by layer from whoever has it.
class PartsSource final : public PageSource {
 public:
  PartsSource(std::vector<std::shared_ptr<const StageCache>> parts, const MovingChain::Moves& moves)
      : parts_(std::move(parts)), moves_(moves) {}
  CacheReport::Offer offer(const StageCache& cache, std::span<const PageClaim> claims) const override {
    CacheReport::Offer offer;
    for (size_t layer = cache.begin(); layer < cache.end(); ++layer)
      for (const PageClaim& claim : claims) {
        const bool held = std::ranges::any_of(parts_, [&](const auto& part) {
          return part->begin() <= layer && part->end() > layer && part->has(claim, layer);
        });
        if (!held || !claim.in_use || cache.has(claim, layer)) continue;
        offer.from = offer.bytes == 0 ? layer : offer.from;
        offer.to = layer + 1;
        offer.bytes += 32 + page_bytes(cache, claim, layer, layer + 1);
      }
    offer.seconds = moves_.seconds * static_cast<double>(offer.bytes);
    return offer;
  }
  void fetch(StageCache& cache, std::span<const PageClaim> claims, Duration limit) override {
    auto [here, there] = cluster::inproc_pair({"receiver", "receiver"}, {"holder", "holder"});
    Parts store(parts_, moves_.requests_max);
    std::thread server([&, link = there.get()] { (void)serve_pages(*link, store); });
    const Deadline deadline(SystemClock::instance(), limit);
    PagesCame came;
    for (size_t layer = cache.begin(); layer < cache.end(); ++layer)
      (void)receive_pages(*here, 1, {{}, layer, layer + 1}, claims, cache, deadline, came);
    here->close();
    server.join();
  }
  void done() override {}
  void cancel() override {}

 private:
  const std::vector<std::shared_ptr<const StageCache>> parts_;
  const MovingChain::Moves moves_;
};

cluster::NodeId id_of(size_t index) { return {fmt::format("{:064}", index), fmt::format("node-{}", index)}; }

}  // namespace

MovingChain::MovingChain(std::filesystem::path path, const ChainOptions& options, uint64_t kept_bytes,
                         const Moves& moves)
    : path_(std::move(path)),
      options_(keeping(options)),
      kept_bytes_(kept_bytes),
      moves_(moves),
      nodes_(kNodes) {
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
  if (moves_.sends && cache->begin() < std::min(cache->end(), range.begin))
    nodes_[node].parked.push_back(cache->part(cache->begin(), std::min(cache->end(), range.begin)));
  if (moves_.sends && std::max(cache->begin(), range.end) < cache->end())
    nodes_[node].parked.push_back(cache->part(std::max(cache->begin(), range.end), cache->end()));
  cache->shrink_to(range.begin, range.end);
  ChainOptions options = options_;
  options.cache.stage_cache = cache;
  return options;
}

// All that left its node by now, the newest first: what nobody lost.
std::shared_ptr<PageSource> MovingChain::source() const {
  if (!moves_.sends) return nullptr;
  std::vector<std::shared_ptr<const StageCache>> parts;
  for (const Node& node : nodes_) parts.insert(parts.end(), node.parked.rbegin(), node.parked.rend());
  return std::make_shared<PartsSource>(std::move(parts), moves_);
}

std::unique_ptr<Chain> MovingChain::start(const std::vector<size_t>& nodes, const std::vector<size_t>& cuts) {
  BF_CHECK(nodes.size() == cuts.size());
  stop();
  const size_t pieces = info_.layers + 2;
  const model::LayerRange last = model::range_of_pieces(cuts.empty() ? 0 : cuts.back(), pieces, info_.layers);
  const auto range_of = [&](size_t i) {
    return model::range_of_pieces(i == 0 ? 0 : cuts[i - 1], cuts[i], info_.layers);
  };
  for (Node& node : nodes_) node.parked.clear();
  nodes_[0].part = std::make_unique<LoadedPart>(path_, last, 1);
  ChainOptions last_options = options_for(0, last);
  std::vector<ChainOptions> options;
  for (size_t i = 0; i < nodes.size(); ++i) options.push_back(options_for(nodes[i], range_of(i)));
  // Those without a part in the plan let all of theirs go.
  for (size_t node = 1; node < nodes_.size(); ++node)
    if (moves_.sends && std::ranges::find(nodes, node) == nodes.end() && nodes_[node].cache != nullptr) {
      const StageCache& cache = *nodes_[node].cache;
      nodes_[node].parked.push_back(cache.part(cache.begin(), cache.end()));
      nodes_[node].cache.reset();
    }
  last_options.cache.page_source = source();
  if (nodes.empty())
    return std::make_unique<LocalChain>(*nodes_[0].part->model, nodes_[0].part->compute, last_options.cache);
  std::shared_ptr<cluster::Link> to_first, from;
  std::tie(to_first, from) = cluster::inproc_pair(id_of(0), id_of(nodes[0]));
  auto from_last = to_first;
  for (size_t i = 0; i < nodes.size(); ++i) {
    Node& node = nodes_[nodes[i]];
    node.part = std::make_unique<LoadedPart>(path_, range_of(i), 1);
    options[i].cache.page_source = source();
    node.runner = std::make_unique<StageRunner>(*node.part->model, node.part->compute, i, options[i]);
    options[i] = {};
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
  nodes_[node].parked.clear();
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
