#include "runtime/nodes/coordinator_backend.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/heap.h"
#include "runtime/chain/group_chain.h"
#include "runtime/chain/linked_chain.h"
#include "runtime/engine/local_chain.h"
#include "runtime/nodes/cache_fetch.h"
#include "runtime/nodes/group_links.h"
#include "runtime/nodes/node_door.h"
#include "runtime/nodes/reported.h"
#include "runtime/nodes/stage_progress.h"

namespace butterfly::runtime {
namespace {

// A stage together with the model it borrows.
template <typename Inner>
class Owning final : public Chain {
 public:
  template <typename... Args>
  Owning(std::shared_ptr<const LoadedModel> model, Args&&... args)
      : model_(std::move(model)), inner_(*model_, std::forward<Args>(args)...) {}
  const ChainInfo& info() const override { return inner_.info(); }
  Status submit(const StepRequest& request) override { return inner_.submit(request); }
  StepResult receive(Duration timeout) override { return inner_.receive(timeout); }
  void skip() override { inner_.skip(); }
  Status reset(uint64_t epoch, Duration timeout) override { return inner_.reset(epoch, timeout); }
  Result<std::optional<CacheReport>> resume(uint64_t epoch, std::span<const PageClaim> claims,
                                            Duration timeout) override {
    return inner_.resume(epoch, claims, timeout);
  }
  void for_each(size_t count, FunctionRef<void(size_t)> fn) override { inner_.for_each(count, fn); }
  void close() override { inner_.close(); }

 private:
  std::shared_ptr<const LoadedModel> model_;
  Inner inner_;
};

// A chain of one stage, which nobody else times.
class TimedChain final : public Chain {
 public:
  TimedChain(std::unique_ptr<Chain> chain, std::shared_ptr<ChainTimes> times)
      : chain_(std::move(chain)), times_(std::move(times)), free_since_(system_now()) {}
  const ChainInfo& info() const override { return chain_->info(); }
  Status submit(const StepRequest& request) override {
    step_ = {.step = request.step,
             .rows = request.rows.size(),
             .total = {},
             .stages = {},
             .passes_all = request.fill.empty()};
    return chain_->submit(request);
  }
  StepResult receive(Duration timeout) override {
    const TimePoint begun = system_now();
    StepResult result = chain_->receive(timeout);
    const TimePoint done = system_now();
    step_.total = done - begun;
    step_.stages = {{.wait = begun - std::exchange(free_since_, done), .compute = done - begun}};
    if (result.status.ok()) times_->add(step_);
    return result;
  }
  void skip() override { chain_->skip(); }
  Status reset(uint64_t epoch, Duration timeout) override { return chain_->reset(epoch, timeout); }
  Result<std::optional<CacheReport>> resume(uint64_t epoch, std::span<const PageClaim> claims,
                                            Duration timeout) override {
    return chain_->resume(epoch, claims, timeout);
  }
  void for_each(size_t count, FunctionRef<void(size_t)> fn) override { chain_->for_each(count, fn); }
  void close() override { chain_->close(); }

 private:
  const std::unique_ptr<Chain> chain_;
  const std::shared_ptr<ChainTimes> times_;
  TimePoint free_since_;
  ChainStep step_;
};

}  // namespace

CoordinatorBackend::CoordinatorBackend(RangeLoaderOptions options, StageLinks& links)
    : options_(options), loader_(std::move(options)), cache_(options_.parked, options_.job), links_(links) {}

StageBackend::Preparation CoordinatorBackend::prepare(const cluster::Assignment& work,
                                                      const std::atomic<bool>& cancelled) {
  const auto done = reported([&] {
    loader_.prepare(work, cancelled);
    return true;
  });
  if (!done) return {done.status()};
  cluster::NodeId to_blame;
  if (const Status members = probe_members(work, *options_.transport, options_.hello, to_blame); !members)
    return {members, to_blame};
  if (work.next == options_.self) return {Status()};
  // Steps go from here to the first stage: can it be reached, before what runs is given up for it?
  const Status probed = probe_link(*options_.transport, work.next_address, work.next.key, options_.hello);
  return {probed, probed ? cluster::NodeId() : work.next};
}

Result<uint64_t> CoordinatorBackend::load(const cluster::Assignment& work,
                                          const std::atomic<bool>& cancelled) {
  {
    const std::lock_guard lock(mutex_);
    model_.reset();
    epoch_ = 0;
  }
  return reported([&]() -> uint64_t {
    const StageSettings settings = RangeLoader::settings_of(work).or_throw();
    cache_.shrink(work, cancelled);
    auto model = loader_.load(work, cancelled, cache_.bytes());
    return_free_heap();  // else every other plan leaves some of its size behind
    const std::lock_guard lock(mutex_);
    model_ = std::move(model);
    settings_ = settings;
    work_ = work;
    epoch_ = work.epoch;
    return model_->resident_bytes;
  });
}

void CoordinatorBackend::stop(cluster::Epoch epoch) { links_.cancel(options_.job, epoch); }

void CoordinatorBackend::free_weights() {
  const std::lock_guard lock(mutex_);
  model_.reset();
  cache_.free();
  loader_.free();
  epoch_ = 0;
}

cluster::WorkerProgress CoordinatorBackend::progress() const {
  const ChainTimes::View times = times_->view();
  return stage_progress(loader_, times.steps, times.rows,
                        times.stages.empty() ? StageTimes{} : times.stages.back());
}

Result<PlacedChain> CoordinatorBackend::chain(cluster::Epoch epoch, const cluster::Placement& placement,
                                              const std::vector<std::string>& addresses,
                                              cluster::NodeId& to_blame) {
  std::shared_ptr<const LoadedModel> model;
  StageSettings settings;
  cluster::Assignment work;
  ChainOptions options;
  {
    const std::lock_guard lock(mutex_);
    if (epoch_ != epoch) return Status(Errc::kCancelled, fmt::format("epoch {} is over", epoch));
    model = model_;
    settings = settings_;
    work = work_;
    options = settings.chain_options();
  }
  const size_t workers = placement.stages.size() - 1;
  return reported([&]() -> PlacedChain {
    options.cache.stage_cache = cache_.for_stage(work.model, *model, settings);
    if (options.cache.stage_cache->keeps_contents())
      options.cache.page_source = make_cache_fetch(options_, work, model->config.layers);
    options.cache.row_layer_seconds = [times = times_, layers = model->config.layers] {
      return times->row_seconds() / static_cast<double>(layers);
    };
    GroupLinks members(work);
    members.open(*options_.transport, options_.hello, kStageLinkMax, to_blame).or_throw();
    const std::shared_ptr<StageGroup> group = std::move(members).group();
    if (workers == 0 && group != nullptr) {
      watch_.begin(epoch, {.to_first = {}, .from_last = {}, .group = group}, on_cut_);
      return {epoch, std::make_unique<Owning<GroupChain>>(model, *options_.compute, options, group)};
    }
    if (workers == 0)
      return {epoch,
              std::make_unique<TimedChain>(
                  std::make_unique<Owning<LocalChain>>(model, *options_.compute, options.cache), times_)};
    cluster::Hello hello = options_.hello;
    hello.purpose = cluster::LinkPurpose::kStage;
    hello.job = options_.job;
    hello.epoch = epoch;
    to_blame = placement.stages.front().first();
    std::shared_ptr<cluster::Link> to_first =
        open_link(*options_.transport, addresses.front(), placement.stages.front().first().key, hello,
                  kStageLinkMax)
            .or_throw();
    to_blame = placement.stages[workers - 1].first();
    std::shared_ptr<cluster::Link> from_last =
        links_.take(options_.job, epoch, placement.stages[workers - 1].first(), kStageLinkMax).or_throw();
    to_blame = {};
    watch_.begin(epoch, {.to_first = to_first, .from_last = from_last, .group = group}, on_cut_);
    return {epoch, std::make_unique<Owning<LinkedChain>>(model, *options_.compute, workers, to_first,
                                                         from_last, options, times_, group)};
  });
}

}  // namespace butterfly::runtime
