// Pages of layers that moved to this node, from the nodes that had them in the plan before.
#pragma once
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/engine/page_source.h"
#include "runtime/nodes/parked_caches.h"
#include "runtime/nodes/range_loader.h"

namespace butterfly::runtime {

// Opens a link of its own to each of them when it fetches. Threads: as PageSource.
class CacheFetch final : public PageSource {
 public:
  // `work.holders` says who; `layers` is the model's number of them.
  CacheFetch(const RangeLoaderOptions& options, const cluster::Assignment& work, size_t layers);

  CacheReport::Offer offer(const StageCache& cache, std::span<const PageClaim> claims) const override;
  void fetch(StageCache& cache, std::span<const PageClaim> claims, Duration limit) override;
  void done() override;
  void cancel() override;

 private:
  struct Holder {
    cluster::NodeId node;
    std::string address;
    LayersOf layers;
    double bytes_per_s = 0;
    bool told = false;  // that nothing more is wanted
  };
  Status fetch_from(Holder& holder, StageCache& cache, std::span<const PageClaim> claims,
                    const Deadline& deadline, PagesCame& came);

  const std::shared_ptr<cluster::Transport> transport_;
  const std::shared_ptr<ParkedCaches> parked_;  // for what is done later
  cluster::Hello hello_;
  std::vector<Holder> holders_;
  std::mutex mutex_;
  bool cancelled_ = false;
  std::shared_ptr<cluster::Link> link_;  // that is being read
};

// Null: nobody has anything for it, or its cache could not use it.
std::shared_ptr<PageSource> make_cache_fetch(const RangeLoaderOptions& options,
                                             const cluster::Assignment& work, size_t layers);

}  // namespace butterfly::runtime
