#include "runtime/nodes/journal_copier.h"

#include "cluster/transport/message.h"

namespace butterfly::runtime {
namespace {

constexpr Duration kLook = std::chrono::milliseconds(200);   // between looks at stopping_
constexpr Duration kAgain = std::chrono::milliseconds(300);  // after a failure
constexpr Duration kPartMax = std::chrono::seconds(5);       // for a part to be on the seat's disk

}  // namespace

void JournalMirror::set(const std::string& all) {
  const std::lock_guard lock(mutex_);
  bytes_ = all;
  ++life_;
  changed_.notify_all();
}

uint64_t JournalMirror::append(const std::string& lines) {
  const std::lock_guard lock(mutex_);
  bytes_ += lines;
  changed_.notify_all();
  return ++number_;
}

JournalMirror::Part JournalMirror::next(uint64_t life, size_t offset, Duration wait) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, wait, [&] { return life_ != 0 && (life != life_ || offset < bytes_.size()); });
  Part part{.life = life_, .offset = life == life_ ? offset : 0, .bytes = {}, .number = number_};
  part.nothing = life_ == 0 || (life == life_ && offset >= bytes_.size());
  part.bytes = bytes_.substr(part.offset, cluster::kCopyPartMax);
  part.last = part.offset + part.bytes.size() == bytes_.size();
  return part;
}

JournalCopier::JournalCopier(JournalMirror& mirror, Options options)
    : mirror_(mirror), options_(std::move(options)), thread_([this] { run(); }) {}

JournalCopier::~JournalCopier() {
  stopping_ = true;
  {
    const std::lock_guard lock(mutex_);
    if (link_ != nullptr) link_->close();
  }
  thread_.join();
}

void JournalCopier::run() {
  // Later ones have larger numbers, so that the other end knows what a link that is over still brings.
  for (uint64_t session = 1; !stopping_; ++session) {
    auto link = options_.connect();
    if (!link) {
      SystemClock::instance().sleep_for(kAgain);
      continue;
    }
    std::shared_ptr<cluster::Link> shared(std::move(*link));
    {
      const std::lock_guard lock(mutex_);
      link_ = shared;
    }
    const Status status = send(*shared, session);
    if (stopping_) return;
    options_.lost(status.text());
    SystemClock::instance().sleep_for(kAgain);
  }
}

Status JournalCopier::send(cluster::Link& link, uint64_t session) {
  uint64_t life = 0, sequence = 0;
  size_t offset = 0;
  while (!stopping_) {
    JournalMirror::Part part = mirror_.next(life, offset, kLook);
    if (part.nothing) continue;
    cluster::LeadQuestion question = options_.question;
    question.kind = cluster::LeadQuestion::Kind::kCopy;
    question.number = (session << 32) + ++sequence;
    question.anew = part.offset == 0;
    question.more = !part.last;
    question.lines = std::move(part.bytes);
    const size_t size = question.lines.size();
    const std::vector<std::byte> body = question.encode();
    if (Status sent = cluster::send_message(link, {.kind = cluster::MessageKind::kControl}, body, kPartMax);
        !sent)
      return sent;
    const auto reply = cluster::receive_message(link, cluster::kLeadMessageMax, kPartMax);
    if (!reply) return reply.status();
    const auto answer = cluster::LeadAnswer::decode(reply->body);
    if (!answer) return answer.status();
    if (!answer->granted) return {Errc::kUnsupported, answer->why};
    life = part.life;
    offset = part.offset + size;
    if (part.last) options_.copied(part.number);
  }
  return {};
}

}  // namespace butterfly::runtime
