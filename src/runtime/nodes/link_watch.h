// Finds the link of a chain that is cut: the system itself notices that minutes later.
#pragma once
#include <fmt/format.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/units.h"
#include "cluster/member/epoch.h"
#include "cluster/transport/link.h"

namespace butterfly::runtime {

// Somebody else owns the link, and it may be gone at any time. Thread-safe.
class LinkWatch {
 public:
  using OnCut =
      std::function<void(cluster::Epoch epoch, const cluster::NodeId& peer, const std::string& why)>;

  void begin(cluster::Epoch epoch, const std::shared_ptr<cluster::Link>& link, OnCut on_cut) {
    const std::lock_guard lock(mutex_);
    epoch_ = epoch;
    link_ = link;
    on_cut_ = std::move(on_cut);
  }

  // If the other machine has acknowledged nothing for `limit`: says so, once, and closes the link. Now and
  // then.
  void look(Duration limit) {
    OnCut tell;
    std::shared_ptr<cluster::Link> link;
    cluster::Epoch epoch;
    {
      const std::lock_guard lock(mutex_);
      link = link_.lock();
      if (link == nullptr || link->unacknowledged() < limit) return;
      tell = std::exchange(on_cut_, nullptr);
      link_.reset();
      epoch = epoch_;
    }
    // First, so that it is known who it was when the chain is found to be broken.
    if (tell)
      tell(epoch, link->peer(),
           fmt::format("its machine has acknowledged nothing for {}", format_duration(limit)));
    link->close();
  }

 private:
  std::mutex mutex_;
  cluster::Epoch epoch_ = 0;
  std::weak_ptr<cluster::Link> link_;
  OnCut on_cut_;
};

}  // namespace butterfly::runtime
