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
  if (sender_.joinable()) sender_.join();
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

// Everybody begins with the member behind it, so that not all send to the first one at first.
Status MemberLinks::send_all(const Sending& what) {
  const MessageHead head{.kind = MessageKind::kExchange, .epoch = epoch_, .step = round_, .bytes = 0};
  for (size_t i = 1; i < links_.size(); ++i) {
    const size_t member = (self_ + i) % links_.size();
    if (what.to != kAll && what.to != member) continue;
    if (Status status = links_[member]->send(head, what.pieces, options_.timeout); !status)
      return named(member, status);
  }
  return {};
}

Result<MessageHead> MemberLinks::wait_for_head(Link& link) {
  const TimePoint end = system_now() + options_.spin;
  do {
    auto head = link.receive_head(Duration(0));
    if (head || head.status().code() != Errc::kTimeout) return head;
    std::this_thread::yield();  // to another node of the same machine, say
  } while (system_now() < end);
  return link.receive_head(options_.timeout);
}

// All pieces of one member, which come as one message.
Status MemberLinks::receive(size_t member, std::span<const Incoming> from) {
  uint64_t expected = 0;
  for (const Incoming& piece : from)
    if (piece.member == member) expected += piece.into.size();
  if (expected == 0) return {};
  waiting_.store(true, std::memory_order_relaxed);
  Status status = receive(member, from, expected);
  waiting_.store(false, std::memory_order_relaxed);
  return status;
}

Status MemberLinks::receive(size_t member, std::span<const Incoming> from, uint64_t expected) {
  Link& link = *links_[member];
  const auto head = wait_for_head(link);
  if (!head) return named(member, head.status());
  if (head->kind != MessageKind::kExchange || head->epoch != epoch_ || head->step != round_ ||
      head->bytes != expected)
    return named(member,
                 {Errc::kCorrupt,
                  fmt::format("sent kind {} of epoch {}, round {}, with {} bytes; expected an exchange "
                              "of epoch {}, round {}, with {} bytes",
                              static_cast<unsigned>(head->kind), head->epoch, head->step, head->bytes, epoch_,
                              round_, expected)});
  for (const Incoming& piece : from)
    if (piece.member == member)
      if (Status status = link.receive_part(piece.into, options_.timeout); !status)
        return named(member, status);
  return {};
}

void MemberLinks::send_beside() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return over_ || sending_ != nullptr; });
    if (over_) return;
    const Sending* what = sending_;
    lock.unlock();
    Status status = send_all(*what);
    lock.lock();
    sent_ = std::move(status);
    sending_ = nullptr;
    changed_.notify_all();
  }
}

Status MemberLinks::run(std::span<const std::span<const std::byte>> mine, std::span<const Incoming> from,
                        size_t to) {
  ++round_;
  const Sending what{mine, to};
  size_t bytes = 0;
  for (const auto& piece : mine) bytes += piece.size();
  const bool beside = bytes > options_.safe_bytes && !from.empty();
  if (beside) {
    const std::lock_guard lock(mutex_);
    if (!sender_.joinable()) sender_ = std::thread([this] { send_beside(); });
    sending_ = &what;
    changed_.notify_all();
  } else if (bytes > 0) {  // who has nothing sends nothing
    if (Status status = send_all(what); !status) return status;
  }
  Status status;
  for (size_t i = 1; i < links_.size() && status; ++i)
    status = receive((self_ + links_.size() - i) % links_.size(), from);
  if (!beside) return status;
  if (!status) close();  // or the sender would wait for who does not take it
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return sending_ == nullptr; });
  return status ? sent_ : status;
}

}  // namespace butterfly::cluster
