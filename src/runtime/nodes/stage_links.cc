#include "runtime/nodes/stage_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace butterfly::runtime {

bool StageLinks::over(cluster::JobId job, cluster::Epoch epoch) const {
  const auto found = cancelled_.find(job);
  return found != cancelled_.end() && epoch <= found->second;
}

void StageLinks::put(cluster::JobId job, cluster::Epoch epoch, std::unique_ptr<cluster::Link> link) {
  std::unique_ptr<cluster::Link> gone;  // closed without the lock
  const std::lock_guard lock(mutex_);
  if (over(job, epoch)) {
    gone = std::move(link);
    return;
  }
  std::map<std::string, size_t> of_peer;
  for (const Waiting& w : waiting_) ++of_peer[w.link->peer().key];
  std::string crowding;
  if (of_peer[link->peer().key] >= kWaitingPerPeer)
    crowding = link->peer().key;
  else if (waiting_.size() >= kWaitingMax)
    crowding = std::ranges::max_element(of_peer, {}, [](const auto& row) { return row.second; })->first;
  if (!crowding.empty()) {
    const auto oldest = oldest_of(crowding);
    gone = std::move(oldest->link);
    waiting_.erase(oldest);
  }
  waiting_.push_back({job, epoch, std::move(link)});
  changed_.notify_all();
}

std::list<StageLinks::Waiting>::iterator StageLinks::oldest_of(const std::string& key) {
  return std::ranges::find_if(waiting_, [&](const Waiting& w) { return w.link->peer().key == key; });
}

Result<std::unique_ptr<cluster::Link>> StageLinks::take(cluster::JobId job, cluster::Epoch epoch,
                                                        const cluster::NodeId& peer, Duration timeout) {
  std::unique_lock lock(mutex_);
  auto found = waiting_.end();
  const bool came = changed_.wait_for(lock, timeout, [&] {
    found = std::ranges::find_if(waiting_, [&](const Waiting& w) {
      return w.job == job && w.epoch == epoch && w.link->peer() == peer;
    });
    return over(job, epoch) || found != waiting_.end();
  });
  if (over(job, epoch)) return Status(Errc::kCancelled, "the stage is not wanted any more");
  if (!came) return Status(Errc::kTimeout, fmt::format("no link came from {}", peer.name));
  std::unique_ptr<cluster::Link> link = std::move(found->link);
  waiting_.erase(found);
  return link;
}

void StageLinks::cancel(cluster::JobId job, cluster::Epoch epoch) {
  std::list<Waiting> gone;
  const std::lock_guard lock(mutex_);
  cluster::Epoch& newest = cancelled_[job];
  newest = std::max(newest, epoch);
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const auto next = std::next(it);
    if (over(it->job, it->epoch)) gone.splice(gone.end(), waiting_, it);
    it = next;
  }
  changed_.notify_all();
}

}  // namespace butterfly::runtime
