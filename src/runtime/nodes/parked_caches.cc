#include "runtime/nodes/parked_caches.h"

#include <algorithm>

#include "base/heap.h"
#include "base/log.h"
#include "base/units.h"

namespace butterfly::runtime {
namespace {

constexpr Duration kExpiryLook = std::chrono::seconds(5);

}  // namespace

Sha256 cache_identity(const cluster::ModelTask& task) {
  const std::string text = task.id + " " + task.settings;
  return sha256(std::as_bytes(std::span(text)));
}

// One job's, for serve_pages().
class ParkedCaches::OfJob final : public PageStore {
 public:
  OfJob(ParkedCaches& caches, cluster::JobId job) : caches_(caches), job_(job) {}
  std::shared_ptr<const StageCache> find(const LayersOf& layers) override {
    return caches_.find(job_, layers);
  }
  void done(const LayersOf& layers) override { caches_.done(job_, layers); }

 private:
  ParkedCaches& caches_;
  const cluster::JobId job_;
};

ParkedCaches::ParkedCaches(Clock& clock) : clock_(clock), loop_([this] { sweep(); }, kExpiryLook) {
  loop_.start();
}

ParkedCaches::~ParkedCaches() { loop_.stop(); }

void ParkedCaches::expect(cluster::JobId job) {
  const std::lock_guard lock(mutex_);
  expected_.push_back(job);
}

void ParkedCaches::settled(cluster::JobId job) {
  const std::lock_guard lock(mutex_);
  if (const auto found = std::ranges::find(expected_, job); found != expected_.end()) expected_.erase(found);
  changed_.notify_all();
}

void ParkedCaches::put(cluster::JobId job, const Sha256& identity, std::shared_ptr<const StageCache> part) {
  const size_t layers = part->end() - part->begin();
  if (layers == 0) return;
  log_debug("layers {} to {} left: {} of their cache are kept for a while", part->begin(), part->end() - 1,
            format_bytes(part->touched_bytes()));
  std::list<Part> gone;
  const std::lock_guard lock(mutex_);
  expire(gone);
  if (parts_.size() == kPartsMax) gone.splice(gone.end(), parts_, parts_.begin());
  parts_.push_back(
      {job, identity, std::move(part), std::vector<bool>(layers, true), clock_.now() + kParkedMax});
  changed_.notify_all();
}

void ParkedCaches::drop(cluster::JobId job) {
  std::list<Part> gone;
  const std::lock_guard lock(mutex_);
  for (auto it = parts_.begin(); it != parts_.end();) {
    const auto next = std::next(it);
    if (it->job == job) gone.splice(gone.end(), parts_, it);
    it = next;
  }
}

void ParkedCaches::expire(std::list<Part>& gone) {
  const TimePoint now = clock_.now();
  for (auto it = parts_.begin(); it != parts_.end();) {
    const auto next = std::next(it);
    if (now >= it->until || std::ranges::find(it->wanted, true) == it->wanted.end())
      gone.splice(gone.end(), parts_, it);
    it = next;
  }
}

void ParkedCaches::sweep() {
  std::list<Part> gone;
  {
    const std::lock_guard lock(mutex_);
    expire(gone);
  }
  if (gone.empty()) return;
  gone.clear();
  return_free_heap();
}

bool ParkedCaches::empty() {
  std::list<Part> gone;
  const std::lock_guard lock(mutex_);
  expire(gone);
  return parts_.empty() && expected_.empty();
}

uint64_t ParkedCaches::bytes(cluster::JobId job) const {
  const std::lock_guard lock(mutex_);
  uint64_t bytes = 0;
  for (const Part& part : parts_)
    if (part.job == job) bytes += part.cache->touched_bytes();
  return bytes;
}

std::shared_ptr<const StageCache> ParkedCaches::find(cluster::JobId job, const LayersOf& layers) {
  const auto covers = [&](const Part& part) {
    return part.job == job && part.identity == layers.model && part.cache->begin() <= layers.begin &&
           part.cache->end() >= layers.end;
  };
  std::unique_lock lock(mutex_);
  auto found = parts_.rend();
  changed_.wait_for(lock, kFindMax, [&] {
    found = std::find_if(parts_.rbegin(), parts_.rend(), covers);  // the newest
    return found != parts_.rend() || std::ranges::find(expected_, job) == expected_.end();
  });
  return found == parts_.rend() ? nullptr : found->cache;
}

void ParkedCaches::done(cluster::JobId job, const LayersOf& layers) {
  std::list<Part> gone;
  const std::lock_guard lock(mutex_);
  for (Part& part : parts_) {
    if (part.job != job || part.identity != layers.model) continue;
    const size_t begin = part.cache->begin(), end = std::min(part.cache->end(), layers.end);
    for (size_t layer = std::max(begin, layers.begin); layer < end; ++layer)
      part.wanted[layer - begin] = false;
  }
  expire(gone);
}

void ParkedCaches::serve(cluster::Link& link, const cluster::Hello& hello) {
  OfJob store(*this, hello.job);
  const Status status = serve_pages(link, store);
  if (status.code() == Errc::kCorrupt) log_warn("{}", status.text());
}

}  // namespace butterfly::runtime
