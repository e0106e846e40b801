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

TrainLink::Outgoing::Outgoing(cluster::Epoch epoch, uint64_t step, const cluster::ValuesHead& head,
                              ConstPieces pieces)
    : head_{.kind = MessageKind::kTrainValues, .epoch = epoch, .step = step}, front_(head.encode()) {
  all_.reserve(1 + pieces.size());
  all_.emplace_back(front_);
  all_.insert(all_.end(), pieces.begin(), pieces.end());
}

Status TrainLink::send_values(cluster::Epoch epoch, uint64_t step, const cluster::ValuesHead& head,
                              ConstPieces pieces) {
  return send_values(Outgoing(epoch, step, head, pieces));
}
Status TrainLink::send_values(const Outgoing& values) {
  return link_->send(values.head_, values.all_, kSendMax);
}
Status TrainLink::begin_values(const Outgoing& values) {
  return link_->begin_send(values.head_, values.all_);
}
Result<cluster::Moved> TrainLink::send_some() { return link_->send_more(kTurnBytes); }

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

void TrainLink::place_values(const Incoming& incoming, Pieces pieces) {
  size_t bytes = 0;
  for (const auto& piece : pieces) bytes += piece.size();
  BF_CHECK(incoming.fits(bytes)) << bytes << " bytes in " << incoming.value_bytes;
  const cluster::ValuesHead& values = incoming.values;
  placed_ = {.packing = values.packing, .planes = values.planes, .pieces = {pieces.begin(), pieces.end()}};
  if (values.packing != cluster::Packing::kNone) placed_.code = PooledArray<std::byte>(incoming.value_bytes);
}

void TrainLink::drop_values(const Incoming& incoming) { placed_ = {.dropped = incoming.value_bytes}; }

std::span<std::byte> TrainLink::room() {
  static thread_local std::array<std::byte, 4096> ignored;
  if (placed_.dropped > 0) return std::span(ignored).first(std::min(placed_.dropped, ignored.size()));
  if (placed_.packing != cluster::Packing::kNone)
    return std::span(placed_.code.data(), placed_.code.size()).subspan(placed_.offset);
  while (placed_.at < placed_.pieces.size() && placed_.offset == placed_.pieces[placed_.at].size()) {
    ++placed_.at;
    placed_.offset = 0;
  }
  if (placed_.at == placed_.pieces.size()) return {};
  return placed_.pieces[placed_.at].subspan(placed_.offset);
}

void TrainLink::came(size_t bytes) {
  if (placed_.dropped > 0)
    placed_.dropped -= bytes;
  else
    placed_.offset += bytes;
}

Status TrainLink::placed_all() {
  Status status;
  if (placed_.packing != cluster::Packing::kNone) {
    status = cluster::unpack(placed_.packing, placed_.planes, placed_.code, placed_.pieces);
    if (!status) link_->close();
  }
  placed_ = {};
  return status;
}

Result<cluster::Moved> TrainLink::receive_some() {
  cluster::Moved moved;
  for (auto into = room(); !into.empty(); into = room()) {
    if (moved.bytes >= kTurnBytes) return moved;
    into = into.first(std::min(into.size(), kTurnBytes - moved.bytes));
    const auto count = link_->receive_some(into);
    if (!count) return count.status();
    came(*count);
    moved.bytes += *count;
    if (*count < into.size()) return moved;
  }
  if (Status status = placed_all(); !status) return status;
  moved.all = true;
  return moved;
}

Status TrainLink::receive_rest() {
  for (auto into = room(); !into.empty(); into = room()) {
    if (Status status = receive_part(into); !status) return status;
    came(into.size());
  }
  return placed_all();
}

Status TrainLink::receive_values(const Incoming& incoming, Pieces pieces) {
  place_values(incoming, pieces);
  return receive_rest();
}

Status TrainLink::skip_values(const Incoming& incoming) {
  drop_values(incoming);
  return receive_rest();
}

}  // namespace butterfly::runtime
