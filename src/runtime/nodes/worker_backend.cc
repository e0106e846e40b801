#include "runtime/nodes/worker_backend.h"

#include <fmt/format.h>

#include "base/heap.h"
#include "base/log.h"
#include "base/thread_name.h"
#include "runtime/nodes/cache_fetch.h"
#include "runtime/nodes/node_door.h"
#include "runtime/nodes/reported.h"
#include "runtime/nodes/stage_progress.h"

namespace butterfly::runtime {
namespace {

constexpr Duration kArriveMax = std::chrono::seconds(60);  // for the link of the stage before
constexpr Duration kCloseAgain = std::chrono::milliseconds(1);
constexpr const char* kThreadName = "bf-stage";  // for top and debuggers; tests look for it

}  // namespace

WorkerBackend::WorkerBackend(RangeLoaderOptions options, StageLinks& links)
    : options_(options), loader_(std::move(options)), cache_(options_.parked, options_.job), links_(links) {}

WorkerBackend::~WorkerBackend() { end_run(); }

StageBackend::Preparation WorkerBackend::prepare(const cluster::Assignment& work,
                                                 const std::atomic<bool>& cancelled) {
  const auto done = reported([&] {
    loader_.prepare(work, cancelled);
    return true;
  });
  if (!done) return {done.status()};
  // Before what runs is given up for it.
  cluster::NodeId to_blame;
  Status probed = probe_members(work, *options_.transport, options_.hello, to_blame);
  if (probed && work.member == 0) {  // only the first one has links to other stages
    probed = probe_link(*options_.transport, work.next_address, work.next.key, options_.hello);
    if (!probed) to_blame = work.next;
  }
  return {probed, to_blame};
}

Result<uint64_t> WorkerBackend::load(const cluster::Assignment& work, const std::atomic<bool>& cancelled) {
  end_run();
  return reported([&]() -> uint64_t {
    {
      const std::lock_guard lock(mutex_);
      runner_.reset();
    }
    model_.reset();
    cache_.shrink(work, cancelled);
    model_ = loader_.load(work, cancelled, cache_.bytes());
    const StageSettings settings = RangeLoader::settings_of(work).or_throw();
    ChainOptions options = settings.chain_options();
    options.cache.stage_cache = cache_.for_stage(work.model, *model_, settings);
    if (options.cache.stage_cache->keeps_contents())
      options.cache.page_source = make_cache_fetch(options_, work, model_->config.layers);
    auto runner = std::make_shared<StageRunner>(*model_, *options_.compute, work.stage, options);
    epoch_ = work.epoch;
    const uint64_t bytes = model_->resident_bytes + runner->cache_bytes();
    return_free_heap();  // else every other plan leaves some of its size behind
    const std::lock_guard lock(mutex_);
    runner_ = std::move(runner);
    return bytes;
  });
}

Status WorkerBackend::start(const cluster::Assignment& work, Lost lost) {
  if (epoch_ != work.epoch || thread_.joinable())
    return {Errc::kInvalidArgument, fmt::format("epoch {} is not loaded", work.epoch)};
  cluster::Hello hello = options_.hello;
  hello.purpose = cluster::LinkPurpose::kStage;
  hello.job = work.job;
  hello.epoch = work.epoch;
  auto box = std::make_shared<std::unique_ptr<cluster::Link>>();
  if (work.member == 0) {
    auto to = open_link(*options_.transport, work.next_address, work.next.key, hello, kStageLinkMax);
    if (!to) return to.status();
    *box = std::move(*to);
  }
  GroupLinks members(work);
  cluster::NodeId unreached;
  if (Status status = members.open(*options_.transport, hello, kStageLinkMax, unreached); !status)
    return status;
  stopping_ = false;
  ended_ = false;
  thread_ = std::thread([this, work, box, members = std::move(members), lost = std::move(lost)]() mutable {
    name_thread(kThreadName);
    run(work, std::move(*box), std::move(members), lost);
    ended_ = true;
  });
  return {};
}

void WorkerBackend::run(const cluster::Assignment& work, std::unique_ptr<cluster::Link> to,
                        GroupLinks members, const Lost& lost) {
  std::shared_ptr<StageRunner> runner;
  {
    const std::lock_guard lock(mutex_);
    runner = runner_;
  }
  std::shared_ptr<cluster::Link> from;
  cluster::NodeId missing;
  Status came = members.take(links_, kArriveMax, missing);
  if (came && work.member == 0) {
    auto link = links_.take(work.job, work.epoch, work.previous, kArriveMax);
    came = link.status();
    if (link)
      from = std::move(*link);
    else
      missing = work.previous;
  }
  if (!came) {
    if (!stopping_) lost(missing, came.text());
    return;
  }
  const std::shared_ptr<StageGroup> group = std::move(members).group();
  log_info("{}: stage {} of {} runs{}", work.model.name, work.stage + 1, work.stages,
           group == nullptr ? "" : fmt::format(", member {} of {}", work.member + 1, work.members.size()));
  const Status status = runner->run(std::move(from), std::move(to), group);
  if (stopping_) return;
  log_info("{}: stage {} ended: {}", work.model.name, work.stage + 1, status.text());
  lost(runner->blamed(), status.text());
}

void WorkerBackend::end_run() {
  stopping_ = true;
  std::shared_ptr<StageRunner> runner;
  {
    const std::lock_guard lock(mutex_);
    runner = runner_;
  }
  if (epoch_ != 0) links_.cancel(options_.job, epoch_);
  if (!thread_.joinable()) return;
  // close() ends a run that is under way; one that begins at this moment gets the next call.
  while (!ended_) {
    if (runner != nullptr) runner->close();
    SystemClock::instance().sleep_for(kCloseAgain);
  }
  thread_.join();
}

void WorkerBackend::stop(cluster::Epoch epoch) {
  if (epoch_ != 0 && epoch_ <= epoch) end_run();
}

void WorkerBackend::cache_wanted(bool wanted) {
  end_run();
  {
    const std::lock_guard lock(mutex_);
    runner_.reset();
  }
  if (wanted) return cache_.park();
  cache_.free();
  if (options_.parked != nullptr) options_.parked->drop(options_.job);
}

void WorkerBackend::free_weights() {
  end_run();
  {
    const std::lock_guard lock(mutex_);
    runner_.reset();
  }
  model_.reset();
  cache_.free();
  loader_.free();
  epoch_ = 0;
  return_free_heap();
}

cluster::WorkerProgress WorkerBackend::progress() const {
  const std::lock_guard lock(mutex_);
  if (runner_ == nullptr) return stage_progress(loader_, 0, 0, {});
  runner_->watch(cut_after_);
  const StageRunnerStats stats = runner_->stats();
  cluster::WorkerProgress progress = stage_progress(loader_, stats.steps, stats.rows, stats.times);
  progress.pending = runner_->pending();
  return progress;
}

}  // namespace butterfly::runtime
