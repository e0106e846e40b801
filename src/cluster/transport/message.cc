#include "cluster/transport/message.h"

#include <fmt/core.h>

#include "cluster/transport/frame.h"

namespace butterfly::cluster {

Status send_message(Link& link, MessageHead head, std::span<const std::byte> body, Duration timeout) {
  return link.send(head, std::span(&body, 1), timeout);
}

Result<Message> receive_message(Link& link, size_t bytes_max, Duration timeout, Duration body_timeout) {
  const auto head = link.receive_head(timeout);
  if (!head) return head.status();
  if (head->bytes > bytes_max) {
    link.close();
    return {Errc::kCorrupt,
            fmt::format("[link] {}: {} of {} bytes, at most {} are expected here", link.peer().name,
                        message_kind_name(head->kind), head->bytes, bytes_max)};
  }
  Message message{*head, PooledArray<std::byte>(head->bytes)};
  if (Status status = link.receive_body(message.body, body_timeout); !status.ok()) {
    // Part of it may be taken: whoever went on as after a timeout of the head would read the rest as a head.
    link.close();
    if (status.code() != Errc::kTimeout) return status;
    return {Errc::kPeerLost,
            fmt::format("[link] {}: a body of {} bytes did not come whole in {} ms", link.peer().name,
                        head->bytes,
                        std::chrono::duration_cast<std::chrono::milliseconds>(body_timeout).count())};
  }
  return message;
}

Status skip_body(Link& link, const MessageHead& head, Duration timeout) {
  PooledArray<std::byte> ignored(head.bytes);
  return link.receive_body(ignored, timeout);
}

}  // namespace butterfly::cluster
