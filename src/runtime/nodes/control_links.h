// The control links of a shell by number: what comes over them becomes events of its loop.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "cluster/member/epoch.h"
#include "runtime/nodes/control_link.h"
#include "runtime/nodes/event_loop.h"

namespace butterfly::runtime {

// Everything here, and both callbacks, are of the loop's thread; clear() also comes after the loop's end.
class ControlLinks {
 public:
  struct Callbacks {
    std::function<void(cluster::LinkNumber link, const cluster::Message& message)> on_message;
    std::function<void(cluster::LinkNumber link, const std::string& why)> on_closed;  // once, last
  };
  // Messages of one link that wait for the loop; then its reader waits, and the peer with it. So one that
  // says too much fills no memory, and the others are heard in between.
  static constexpr size_t kUnheardMax = 64;

  // Borrows the loop, which ends before this.
  ControlLinks(EventLoop& loop, Callbacks callbacks) : loop_(loop), callbacks_(std::move(callbacks)) {}

  cluster::LinkNumber add(std::unique_ptr<cluster::Link> link);
  // Nothing happens for links that are gone.
  void send(cluster::LinkNumber link, cluster::MessageHead head, std::vector<std::byte> body);
  // What was sent before is still written. Does not wait: on_closed() comes when it has ended.
  void close(cluster::LinkNumber link);
  // Ends all of them, and waits.
  void clear() { links_.clear(); }

 private:
  EventLoop& loop_;
  const Callbacks callbacks_;
  std::map<cluster::LinkNumber, std::unique_ptr<ControlLink>> links_;
  cluster::LinkNumber next_ = 1;
};

}  // namespace butterfly::runtime
