// Whole messages, for those who need no scattered pieces and no memory of their own: control, hello, health.
#pragma once
#include <cstddef>
#include <span>

#include "cluster/transport/link.h"
#include "tensor/pooled_array.h"

namespace butterfly::cluster {

struct Message {
  MessageHead head;
  PooledArray<std::byte> body;
};

// Sends one piece.
Status send_message(Link& link, MessageHead head, std::span<const std::byte> body, Duration timeout);

// Waits up to `timeout` for a head (kTimeout leaves the link as it was), then up to `body_timeout` for its
// body: kPeerLost after that, and the link is closed, for it cannot be taken up again inside a body. A body
// of more than `bytes_max` is kCorrupt, and the link is closed: its sender does not keep to the rules.
Result<Message> receive_message(Link& link, size_t bytes_max, Duration timeout, Duration body_timeout);
inline Result<Message> receive_message(Link& link, size_t bytes_max, Duration timeout) {
  return receive_message(link, bytes_max, timeout, timeout);
}

// Takes and forgets the body of `head`: messages of an old epoch.
Status skip_body(Link& link, const MessageHead& head, Duration timeout);

}  // namespace butterfly::cluster
