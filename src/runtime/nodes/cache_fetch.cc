#include "runtime/nodes/cache_fetch.h"

#include <algorithm>

#include "base/log.h"
#include "base/units.h"
#include "model/arch/layer_range.h"
#include "runtime/nodes/node_door.h"
#include "runtime/nodes/reported.h"

namespace butterfly::runtime {
namespace {

constexpr Duration kOpenHolderMax = std::chrono::seconds(2);
constexpr double kUnmeasured = 12.5e6;  // bytes/s of a link that nobody has measured: 100 Mbit/s
constexpr double kOpenSeconds = 0.02;   // for a link

}  // namespace

CacheFetch::CacheFetch(const RangeLoaderOptions& options, const cluster::Assignment& work, size_t layers)
    : transport_(options.transport), parked_(options.parked), hello_(options.hello) {
  hello_.purpose = cluster::LinkPurpose::kCache;
  hello_.job = work.job;
  hello_.epoch = work.epoch;
  for (const cluster::Assignment::Holder& holder : work.holders) {
    const model::LayerRange range = model::range_of_pieces(holder.begin, holder.end, layers);
    if (range.begin >= range.end) continue;  // the embedding or the head alone: nothing to remember
    holders_.push_back({.node = holder.node,
                        .address = holder.address,
                        .layers = {cache_identity(work.model), range.begin, range.end},
                        .bytes_per_s = holder.bytes_per_s > 0 ? holder.bytes_per_s : kUnmeasured});
  }
}

std::shared_ptr<PageSource> make_cache_fetch(const RangeLoaderOptions& options,
                                             const cluster::Assignment& work, size_t layers) {
  if (options.parked == nullptr || work.holders.empty() || work.members.size() > 1) return nullptr;
  return std::make_shared<CacheFetch>(options, work, layers);
}

CacheReport::Offer CacheFetch::offer(const StageCache& cache, std::span<const PageClaim> claims) const {
  CacheReport::Offer offer;
  for (const Holder& holder : holders_) {
    if (holder.layers.begin < cache.begin() || holder.layers.end > cache.end()) continue;
    uint64_t bytes = 0;
    for (const PageClaim& claim : claims) {
      if (!claim.in_use) continue;
      for (size_t layer = holder.layers.begin; layer < holder.layers.end; ++layer)
        if (!cache.has(claim, layer))
          bytes += page_bytes(cache, claim, layer, layer + 1) + sizeof(Lineage);  // and names
    }
    if (bytes == 0) continue;
    offer.from = offer.bytes == 0 ? holder.layers.begin : std::min(offer.from, holder.layers.begin);
    offer.to = std::max(offer.to, holder.layers.end);
    offer.bytes += bytes;
    offer.seconds += kOpenSeconds + static_cast<double>(bytes) / holder.bytes_per_s;
  }
  return offer;
}

Status CacheFetch::fetch_from(Holder& holder, StageCache& cache, std::span<const PageClaim> claims,
                              const Deadline& deadline, PagesCame& came) {
  auto opened = open_link(*transport_, holder.address, holder.node.key, hello_,
                          std::min(kOpenHolderMax, deadline.remaining()));
  if (!opened) return opened.status();
  const std::shared_ptr<cluster::Link> link = *std::move(opened);
  {
    const std::lock_guard lock(mutex_);
    if (cancelled_) return {Errc::kCancelled, "the stage ends"};
    link_ = link;
  }
  Status status = receive_pages(*link, hello_.epoch, holder.layers, claims, cache, deadline, came);
  holder.told = send_done(*link, hello_.epoch, holder.layers, kOpenHolderMax).ok();
  const std::lock_guard lock(mutex_);
  link_.reset();
  return status;
}

void CacheFetch::fetch(StageCache& cache, std::span<const PageClaim> claims, Duration limit) {
  const Deadline deadline(SystemClock::instance(), limit);
  for (Holder& holder : holders_) {
    if (holder.layers.begin < cache.begin() || holder.layers.end > cache.end()) continue;
    const TimePoint began = system_now();
    PagesCame came;
    const Status status = reported([&] {
                            fetch_from(holder, cache, claims, deadline, came).or_throw();
                            return true;
                          }).status();
    log_info("layers {} to {}: {} pages, {} came from {} in {}{}", holder.layers.begin, holder.layers.end - 1,
             came.pages, format_bytes(came.bytes), holder.node.name, format_duration(system_now() - began),
             status ? "" : "; what is missing is computed again: " + status.text());
  }
}

void CacheFetch::done() {
  std::vector<Holder> left;
  std::ranges::copy_if(holders_, std::back_inserter(left), [](const Holder& holder) { return !holder.told; });
  if (left.empty()) return;
  parked_->later([transport = transport_, hello = hello_, left = std::move(left)] {
    for (const Holder& holder : left) {
      const auto link = open_link(*transport, holder.address, holder.node.key, hello, kOpenHolderMax);
      if (link) (void)send_done(**link, hello.epoch, holder.layers, kOpenHolderMax);  // else it waits in vain
    }
  });
}

void CacheFetch::cancel() {
  std::shared_ptr<cluster::Link> link;
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    link = link_;
  }
  if (link != nullptr) link->close();
}

}  // namespace butterfly::runtime
