// Finds the link of a chain that is cut: the system itself notices that minutes later.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/member/epoch.h"
#include "runtime/chain/silence_watch.h"
#include "runtime/chain/stage_group.h"

namespace butterfly::runtime {

// The coordinator's end of a chain. Somebody else owns the links, and they may be gone at any time.
// Thread-safe.
class LinkWatch {
 public:
  using OnCut =
      std::function<void(cluster::Epoch epoch, const cluster::NodeId& peer, const std::string& why)>;
  // What a chain here has of links: `group` where members share the last stage; any of them may be null.
  struct Ends {
    std::weak_ptr<cluster::Link> to_first, from_last;
    std::weak_ptr<StageGroup> group;
  };

  void begin(cluster::Epoch epoch, Ends ends, OnCut on_cut) {
    const std::lock_guard lock(mutex_);
    epoch_ = epoch;
    ends_ = std::move(ends);
    on_cut_ = std::move(on_cut);
    watches_ = true;
    watch_ = {};
  }

  // If a link passes nothing for `limit` (see SilenceWatch): says so, once, and closes all. Now and then.
  void look(Duration limit) {
    OnCut tell;
    cluster::Epoch epoch;
    std::optional<SilenceWatch::Cut> cut;
    const auto [to_first, from_last, group] = locked();
    {
      const std::lock_guard lock(mutex_);
      if (!watches_) return;
      std::vector<cluster::Link*> to = {to_first.get()}, from = {from_last.get()};
      if (group != nullptr) group->add_links(to, from);
      cut = watch_.look(to, from, limit);
      if (!cut) return;
      tell = std::exchange(on_cut_, nullptr);
      ends_ = {};
      watches_ = false;
      epoch = epoch_;
    }
    // First, so that it is known who it was when the chain is found to be broken.
    if (tell) tell(epoch, cut->peer, cut->why);
    if (to_first != nullptr) to_first->close();
    if (from_last != nullptr) from_last->close();
    if (group != nullptr) group->close();
  }

 private:
  struct Locked {
    std::shared_ptr<cluster::Link> to_first, from_last;
    std::shared_ptr<StageGroup> group;
  };
  Locked locked() {
    const std::lock_guard lock(mutex_);
    return {ends_.to_first.lock(), ends_.from_last.lock(), ends_.group.lock()};
  }

  std::mutex mutex_;
  cluster::Epoch epoch_ = 0;
  Ends ends_;
  bool watches_ = false;
  OnCut on_cut_;
  SilenceWatch watch_;
};

}  // namespace butterfly::runtime
