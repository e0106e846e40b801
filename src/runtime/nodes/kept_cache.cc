#include "runtime/nodes/kept_cache.h"

#include "base/clock.h"
#include "base/log.h"
#include "model/arch/layer_range.h"
#include "runtime/engine/paged_layers.h"
#include "runtime/layers/cached_layers.h"

namespace butterfly::runtime {
namespace {

constexpr Duration kCacheLetGoMax = std::chrono::seconds(10);  // then there is a new one
constexpr Duration kCacheLetGoLook = std::chrono::milliseconds(2);

std::string identity(const cluster::ModelTask& task) { return task.id + " " + task.settings; }

}  // namespace

// Whoever computed with it has let go; false: not yet.
bool KeptCache::wait_for_others(const std::shared_ptr<StageCache>& cache,
                                const std::atomic<bool>* cancelled) const {
  const Deadline deadline(SystemClock::instance(), kCacheLetGoMax);
  const auto in_use = [&] { return cache.use_count() > 1 || !cache->idle(); };
  while (in_use() && !deadline.expired() && (cancelled == nullptr || !*cancelled))
    SystemClock::instance().sleep_for(kCacheLetGoLook);
  return !in_use();
}

void KeptCache::shrink(const cluster::Assignment& work, const std::atomic<bool>& cancelled) {
  std::shared_ptr<StageCache> cache;
  {
    const std::lock_guard lock(mutex_);
    cache = std::move(cache_);
    cache_ = nullptr;
    if (cache_for_ != identity(work.model) || work.members.size() > 1 ||
        (cache != nullptr && !cache->keeps_contents()))
      cache = nullptr;
  }
  if (cache == nullptr || work.pieces < 2 || work.begin >= work.end || work.end > work.pieces) return;
  if (!wait_for_others(cache, &cancelled)) return;
  const model::LayerRange range = model::range_of_pieces(work.begin, work.end, work.pieces - 2);
  if (parked_ != nullptr && cache->touched_bytes() > 0) {
    const Sha256 identity = cache_identity(work.model);
    if (cache->begin() < range.begin)
      parked_->put(job_, identity, cache->part(cache->begin(), std::min(cache->end(), range.begin)));
    if (cache->end() > range.end)
      parked_->put(job_, identity, cache->part(std::max(cache->begin(), range.end), cache->end()));
  }
  cache->shrink_to(range.begin, range.end);
  const std::lock_guard lock(mutex_);
  cache_ = std::move(cache);
}

std::shared_ptr<StageCache> KeptCache::for_stage(const cluster::ModelTask& task, const LoadedModel& model,
                                                 const StageSettings& settings) {
  const ChainOptions options = settings.chain_options();
  const model::CacheShape shape{model.config.states, settings.kv_type};
  // Lossy rows depend on where the cuts are: nothing of another plan is of use. What a member of a stage
  // holds is of use only if all others hold the same, which nobody asks them.
  const StageCacheOptions wanted{
      .room = cache_room(model, options.cache),
      .dim = model.config.row_cols(),
      .rows_bytes_max = settings.kept_bytes,
      .keeps_contents = settings.kept_bytes > 0 && options.format->is_exact() && !model.group};
  const std::lock_guard lock(mutex_);
  const bool usable = cache_ != nullptr && cache_.use_count() == 1 && cache_->idle() &&
                      cache_for_ == identity(task) && cache_->fits(shape, wanted) &&
                      cache_->begin() >= model.range.begin && cache_->end() <= model.range.end;
  if (!usable) cache_ = std::make_shared<StageCache>(shape, wanted);
  cache_for_ = identity(task);
  identity_ = cache_identity(task);
  return cache_;
}

void KeptCache::park() {
  std::shared_ptr<StageCache> cache;
  Sha256 identity;
  {
    const std::lock_guard lock(mutex_);
    cache = std::exchange(cache_, nullptr);
    identity = identity_;
  }
  if (cache == nullptr || parked_ == nullptr || !cache->keeps_contents() || cache->touched_bytes() == 0 ||
      !wait_for_others(cache, nullptr))
    return;
  parked_->put(job_, identity, cache->part(cache->begin(), cache->end()));
}

void KeptCache::free() {
  const std::lock_guard lock(mutex_);
  cache_.reset();
}

uint64_t KeptCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return cache_ == nullptr ? 0 : cache_->touched_bytes();
}

}  // namespace butterfly::runtime
