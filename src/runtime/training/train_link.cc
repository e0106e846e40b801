#include "runtime/training/train_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "cluster/transport/message.h"

namespace butterfly::runtime {

using cluster::MessageKind;

Status TrainLink::send_body(std::vector<std::byte> body) {
  return cluster::send_message(*link_, {.kind = MessageKind::kTraining}, body, kSendMax);
}
Status TrainLink::send(const cluster::ToTrainMember& message) { return send_body(encode(message)); }
Status TrainLink::send(const cluster::ToTrainLead& message) { return send_body(encode(message)); }
Status TrainLink::send(const cluster::PeerGreeting& greeting) { return send_body(encode(greeting)); }

Status TrainLink::send_values(cluster::Epoch epoch, uint64_t step, const cluster::ValuesHead& head,
                              ConstPieces pieces) {
  const std::vector<std::byte> front = head.encode();
  std::vector<std::span<const std::byte>> all{front};
  all.insert(all.end(), pieces.begin(), pieces.end());
  return link_->send({.kind = MessageKind::kTrainValues, .epoch = epoch, .step = step}, all, kSendMax);
}

Status TrainLink::receive_part(std::span<std::byte> into) {
  Status status = link_->receive_part(into, part_max_);
  return status.code() == Errc::kTimeout ? Status(Errc::kPeerLost, status.text()) : status;
}

Result<TrainLink::Incoming> TrainLink::receive(Duration timeout) {
  const auto head = link_->receive_head(timeout);
  if (!head) return head.status();
  Incoming incoming;
  incoming.head = *head;
  if (head->kind == MessageKind::kTraining) {
    incoming.body = PooledArray<std::byte>(head->bytes);
    if (Status status = receive_part(incoming.body); !status) return status;
    return incoming;
  }
  if (head->kind != MessageKind::kTrainValues || head->bytes < cluster::ValuesHead::kBytes) {
    link_->close();
    return {Errc::kCorrupt,
            fmt::format("{}: a message of kind {} with {} bytes has no place in a training job", peer().name,
                        static_cast<int>(head->kind), head->bytes)};
  }
  std::array<std::byte, cluster::ValuesHead::kBytes> front;
  if (Status status = receive_part(front); !status) return status;
  const auto values = cluster::ValuesHead::decode(front);
  if (!values) {
    link_->close();
    return values.status();
  }
  incoming.is_values = true;
  incoming.values = *values;
  incoming.value_bytes = head->bytes - front.size();
  return incoming;
}

Status TrainLink::receive_values(const Incoming& incoming, Pieces pieces) {
  size_t bytes = 0;
  for (const auto& piece : pieces) bytes += piece.size();
  BF_CHECK(incoming.fits(bytes)) << bytes << " bytes in " << incoming.value_bytes;
  if (incoming.values.packing != cluster::Packing::kNone) {
    PooledArray<std::byte> code(incoming.value_bytes);
    if (Status status = receive_part(code); !status) return status;
    Status status = cluster::unpack(incoming.values.packing, incoming.values.planes, code, pieces);
    if (!status) link_->close();
    return status;
  }
  for (const auto& piece : pieces)
    if (Status status = receive_part(piece); !status) return status;
  return {};
}

Status TrainLink::skip_values(const Incoming& incoming) {
  std::array<std::byte, 4096> ignored;
  for (size_t left = incoming.value_bytes; left > 0;) {
    const size_t part = std::min(left, ignored.size());
    if (Status status = receive_part(std::span(ignored).first(part)); !status) return status;
    left -= part;
  }
  return {};
}

}  // namespace butterfly::runtime
