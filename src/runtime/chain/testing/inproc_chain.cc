#include "runtime/chain/testing/inproc_chain.h"

#include <fmt/format.h>

#include "cluster/transport/inproc.h"

namespace butterfly::runtime::testing {
namespace {

cluster::NodeId node(size_t index) { return {fmt::format("{:064}", index), fmt::format("node-{}", index)}; }

}  // namespace

LoadedPart::LoadedPart(const std::filesystem::path& path, const model::LayerRange& range, size_t threads)
    : compute(ThreadPool::Options{.threads = threads, .pin = false}) {
  LoadOptions options;
  options.with_tokenizer = !range.without_head;
  options.range = range;
  model = load_model(path, compute.take().pool(), options);
}

InprocChain::InprocChain(const std::filesystem::path& path, const std::vector<size_t>& cuts,
                         const ChainOptions& options, size_t threads)
    : options_(options) {
  const size_t layers = model::read_config(model::open_model(path)).layers;
  for (size_t i = 0; i <= cuts.size(); ++i) {
    const size_t begin = i == 0 ? 0 : cuts[i - 1], end = i == cuts.size() ? layers + 2 : cuts[i];
    parts_.push_back(std::make_unique<LoadedPart>(path, model::range_of_pieces(begin, end, layers), threads));
  }
  for (size_t i = 0; i < cuts.size(); ++i)
    workers_.push_back(std::make_unique<StageRunner>(*parts_[i]->model, parts_[i]->compute, i, options_));
}

InprocChain::~InprocChain() { (void)ends(); }

std::unique_ptr<LinkedChain> InprocChain::start(std::shared_ptr<ChainTimes> times) {
  (void)ends();
  // Link i leads from stage i - 1 to stage i; stage "-1" and the last one are the coordinator's, and with one
  // worker both its links are one.
  std::shared_ptr<cluster::Link> to_first, from;
  std::tie(to_first, from) = cluster::inproc_pair(node(workers_.size()), node(0));
  links_ = {to_first, from};
  ends_.assign(workers_.size(), Status());
  auto from_last = to_first;
  for (size_t i = 0; i < workers_.size(); ++i) {
    std::shared_ptr<cluster::Link> to = from, next = to_first;
    if (workers_.size() > 1) {
      std::tie(to, next) = cluster::inproc_pair(node(i), node(i + 1));
      links_.insert(links_.end(), {to, next});
    }
    ends_of_worker_.push_back({from, to});
    threads_.emplace_back([this, i, from, to] { ends_[i] = workers_[i]->run(from, to); });
    from = from_last = next;
  }
  return std::make_unique<LinkedChain>(*parts_.back()->model, parts_.back()->compute, workers_.size(),
                                       to_first, from_last, options_, std::move(times));
}

void InprocChain::lose(size_t worker) {
  for (auto& link : ends_of_worker_[worker]) link->close();
}

std::vector<Status> InprocChain::ends() {
  for (auto& link : links_) link->close();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  links_.clear();
  ends_of_worker_.clear();
  return ends_;
}

}  // namespace butterfly::runtime::testing
