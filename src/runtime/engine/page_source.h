// Pages that a stage lacks and other nodes still have: those whose layers moved here.
#pragma once
#include <span>

#include "base/clock.h"
#include "runtime/engine/cache_report.h"

namespace butterfly::runtime {

class StageCache;

// Of one stage and one plan. Nothing depends on it: what it does not bring is computed again. All but
// cancel() come from the stage's thread.
class PageSource {
 public:
  virtual ~PageSource() = default;

  // What the cache lacks of the claims that are in use, and could get: layers, bytes, predicted seconds.
  virtual CacheReport::Offer offer(const StageCache& cache, std::span<const PageClaim> claims) const = 0;
  // Gets it, for so long at most. What came whole and as claimed is in the cache.
  virtual void fetch(StageCache& cache, std::span<const PageClaim> claims, Duration limit) = 0;
  // Nothing will be asked for any more: those who have it may free it. Does not wait.
  virtual void done() = 0;
  // A fetch() under way ends soon, and later ones at once. From any thread.
  virtual void cancel() = 0;
};

}  // namespace butterfly::runtime
