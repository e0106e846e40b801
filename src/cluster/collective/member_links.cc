#include "cluster/collective/member_links.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace butterfly::cluster {

MemberLinks::MemberLinks(std::vector<std::shared_ptr<Link>> links, size_t self,
                         const MemberLinksOptions& options)
    : links_(std::move(links)), self_(self), options_(options) {
  for (size_t i = 0; i < links_.size(); ++i)
    BF_CHECK((links_[i] == nullptr) == (i == self)) << "member " << i << " of " << links_.size();
}

MemberLinks::~MemberLinks() {
  close();
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }
  for (std::thread* thread : {&sender_, &receiver_})
    if (thread->joinable()) thread->join();
}

void MemberLinks::close() {
  for (const auto& link : links_)
    if (link != nullptr) link->close();
}

void MemberLinks::begin_epoch(uint64_t epoch) {
  epoch_ = epoch;
  round_ = 0;
}

Status MemberLinks::named(size_t member, const Status& status) const {
  if (status) return status;
  return {status.code(),
          fmt::format("[exchange] member {} ({}): {}", member, links_[member]->peer().name, status.text())};
}

// Everybody begins with the member behind it, so that not all send to the first one at first. Who has nothing
// for another sends it nothing.
Status MemberLinks::send_all(uint64_t round, std::span<const Outgoing> mine) {
  const MessageHead head{.kind = MessageKind::kExchange, .epoch = epoch_, .step = round, .bytes = 0};
  std::vector<std::span<const std::byte>> pieces;
  pieces.reserve(mine.size());
  for (size_t i = 1; i < links_.size(); ++i) {
    const size_t member = (self_ + i) % links_.size();
    pieces.clear();
    for (const Outgoing& piece : mine)
      if ((piece.to == kAll || piece.to == member) && !piece.bytes.empty()) pieces.push_back(piece.bytes);
    if (pieces.empty()) continue;
    if (Status status = links_[member]->send(head, pieces, options_.timeout); !status)
      return named(member, status);
  }
  return {};
}

Status MemberLinks::receive_all(uint64_t round, std::span<const Incoming> from, Duration spin) {
  for (size_t i = 1; i < links_.size(); ++i)
    if (Status status = receive((self_ + links_.size() - i) % links_.size(), round, from, spin); !status)
      return status;
  return {};
}

Result<MessageHead> MemberLinks::wait_for_head(Link& link, Duration spin) {
  if (spin <= Duration(0)) return link.receive_head(options_.timeout);
  const TimePoint end = system_now() + spin;
  do {
    auto head = link.receive_head(Duration(0));
    if (head || head.status().code() != Errc::kTimeout) return head;
    std::this_thread::yield();  // to another node of the same machine, say
  } while (system_now() < end);
  return link.receive_head(options_.timeout);
}

// All pieces of one member, which come as one message.
Status MemberLinks::receive(size_t member, uint64_t round, std::span<const Incoming> from, Duration spin) {
  uint64_t expected = 0;
  for (const Incoming& piece : from)
    if (piece.member == member) expected += piece.into.size();
  if (expected == 0) return {};
  Link& link = *links_[member];
  const auto head = wait_for_head(link, spin);
  if (!head) return named(member, head.status());
  if (head->kind != MessageKind::kExchange || head->epoch != epoch_ || head->step != round ||
      head->bytes != expected)
    return named(member,
                 {Errc::kCorrupt,
                  fmt::format("sent kind {} of epoch {}, round {}, with {} bytes; expected an exchange "
                              "of epoch {}, round {}, with {} bytes",
                              static_cast<unsigned>(head->kind), head->epoch, head->step, head->bytes, epoch_,
                              round, expected)});
  for (const Incoming& piece : from)
    if (piece.member == member)
      if (Status status = link.receive_part(piece.into, options_.timeout); !status)
        return named(member, status);
  return {};
}

// Waits for one of which this is not done; null when all is over.
MemberLinks::Round* MemberLinks::first_round(bool Round::*done) {
  std::unique_lock lock(mutex_);
  Round* found = nullptr;
  changed_.wait(lock, [&] {
    const auto it = std::ranges::find(rounds_, false, done);
    found = it == rounds_.end() ? nullptr : &*it;
    return over_ || found != nullptr;
  });
  return over_ ? nullptr : found;
}

void MemberLinks::send_beside() {
  while (Round* round = first_round(&Round::is_sent)) {
    Status status = send_all(round->number, round->mine);
    const std::lock_guard lock(mutex_);
    round->sent = std::move(status);
    round->is_sent = true;
    changed_.notify_all();
  }
}

void MemberLinks::receive_beside() {
  while (Round* round = first_round(&Round::is_received)) {
    Status status = receive_all(round->number, round->from, Duration(0));
    if (!status) close();  // or the sender would wait for who does not take it
    const std::lock_guard lock(mutex_);
    round->received = std::move(status);
    round->is_received = true;
    changed_.notify_all();
  }
}

void MemberLinks::start(std::span<const Outgoing> mine, std::span<const Incoming> from) {
  const std::lock_guard lock(mutex_);
  if (!sender_.joinable()) sender_ = std::thread([this] { send_beside(); });
  if (!receiver_.joinable()) receiver_ = std::thread([this] { receive_beside(); });
  rounds_.push_back({++round_, {mine.begin(), mine.end()}, {from.begin(), from.end()}});
  changed_.notify_all();
}

Status MemberLinks::finish() {
  std::unique_lock lock(mutex_);
  BF_CHECK(!rounds_.empty()) << "nothing was started";
  const Round& first = rounds_.front();
  waiting_.store(true, std::memory_order_relaxed);
  changed_.wait(lock, [&] { return first.is_sent && first.is_received; });
  waiting_.store(false, std::memory_order_relaxed);
  Status status = first.received ? first.sent : first.received;
  rounds_.pop_front();
  return status;
}

Status MemberLinks::run(std::span<const Outgoing> mine, std::span<const Incoming> from) {
  size_t bytes = 0;  // to one other, at most
  for (const Outgoing& piece : mine) bytes += piece.bytes.size();
  if (bytes <= options_.safe_bytes || from.empty()) {
    ++round_;
    if (Status status = send_all(round_, mine); !status) return status;
    waiting_.store(true, std::memory_order_relaxed);
    Status status = receive_all(round_, from, options_.spin);
    waiting_.store(false, std::memory_order_relaxed);
    return status;
  }
  // Received here, where nobody has to be woken for it.
  {
    const std::lock_guard lock(mutex_);
    BF_CHECK(rounds_.empty()) << rounds_.size() << " rounds are not finished";
    if (!sender_.joinable()) sender_ = std::thread([this] { send_beside(); });
    rounds_.push_back({++round_, {mine.begin(), mine.end()}, {}, false, true});
    changed_.notify_all();
  }
  waiting_.store(true, std::memory_order_relaxed);
  Status status = receive_all(round_, from, options_.spin);
  waiting_.store(false, std::memory_order_relaxed);
  if (!status) close();  // or the sender would wait for who does not take it
  Status sent = finish();
  return status ? sent : status;
}

}  // namespace butterfly::cluster
