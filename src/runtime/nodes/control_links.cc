#include "runtime/nodes/control_links.h"

#include "cluster/member/control_message.h"

namespace butterfly::runtime {

cluster::LinkNumber ControlLinks::add(std::unique_ptr<cluster::Link> link) {
  const cluster::LinkNumber number = next_++;
  ControlLink::Callbacks callbacks;
  callbacks.on_message = [this, number](cluster::Message message) {
    // An event may be copied, a message may not.
    loop_.post([this, number, kept = std::make_shared<const cluster::Message>(std::move(message))] {
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
