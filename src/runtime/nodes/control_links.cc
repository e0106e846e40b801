#include "runtime/nodes/control_links.h"

#include "cluster/member/control_message.h"

namespace butterfly::runtime {
namespace {

// How many messages of a link wait for the loop.
class Unheard {
 public:
  // Waits for a place. What it returns gives it back, wherever it ends: run or dropped.
  static std::shared_ptr<void> enter(const std::shared_ptr<Unheard>& all) {
    std::unique_lock lock(all->mutex_);
    all->changed_.wait(lock, [&] { return all->count_ < ControlLinks::kUnheardMax; });
    ++all->count_;
    return {nullptr, [all](void*) { all->leave(); }};
  }

 private:
  void leave() {
    const std::lock_guard lock(mutex_);
    --count_;
    changed_.notify_one();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t count_ = 0;
};

}  // namespace

cluster::LinkNumber ControlLinks::add(std::unique_ptr<cluster::Link> link) {
  const cluster::LinkNumber number = next_++;
  ControlLink::Callbacks callbacks;
  callbacks.on_message = [this, number, unheard = std::make_shared<Unheard>()](cluster::Message message) {
    // An event may be copied, a message may not.
    loop_.post([this, number, place = Unheard::enter(unheard),
                kept = std::make_shared<const cluster::Message>(std::move(message))] {
      callbacks_.on_message(number, *kept);
    });
  };
  callbacks.on_closed = [this, number](const std::string& why) {
    loop_.post([this, number, why] {
      links_.erase(number);
      callbacks_.on_closed(number, why);
    });
  };
  links_[number] =
      std::make_unique<ControlLink>(std::move(link), cluster::kControlBytesMax, std::move(callbacks));
  return number;
}

void ControlLinks::send(cluster::LinkNumber link, cluster::MessageHead head, std::vector<std::byte> body) {
  const auto found = links_.find(link);
  if (found != links_.end()) found->second->send(head, std::move(body));
}

void ControlLinks::close(cluster::LinkNumber link) {
  const auto found = links_.find(link);
  if (found != links_.end()) found->second->close();
}

}  // namespace butterfly::runtime
