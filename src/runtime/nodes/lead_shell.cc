#include "runtime/nodes/lead_shell.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>

#include "base/error.h"
#include "base/log.h"
#include "base/secret.h"
#include "cluster/transport/message.h"
#include "runtime/nodes/node_door.h"
#include "runtime/nodes/reported.h"

namespace butterfly::runtime {
namespace {

constexpr Duration kTick = std::chrono::milliseconds(50);
constexpr Duration kAskMax = std::chrono::milliseconds(1200);  // for one question and its answer
constexpr Duration kConnectMax = std::chrono::milliseconds(1500);
constexpr Duration kPromotionLook = std::chrono::milliseconds(200);
constexpr Duration kLastWords = std::chrono::milliseconds(400);
constexpr size_t kQuestionsMax = 4;  // that wait for one node; then the oldest go

cluster::LeadSeatConfig seat_config(const LeadShell::Options& options) {
  cluster::LeadSeatConfig config{.self = options.self, .founder = options.authority.has_value()};
  config.instance = random_hex(8);
  config.lease = kLeadLease;
  config.after = options.after;
  config.seed = std::stoull(random_hex(15), nullptr, 16);
  return config;
}

}  // namespace

// Asks one node, one question at a time.
class LeadShell::Asker {
 public:
  Asker(LeadShell& shell, std::string key)
      : shell_(shell), key_(std::move(key)), thread_([this] { run(); }) {}
  ~Asker() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      if (link_ != nullptr) link_->close();
      changed_.notify_one();
    }
    thread_.join();
  }
  void ask(cluster::LeadQuestion question) {
    const std::lock_guard lock(mutex_);
    // Of renewals the newest says all.
    if (!questions_.empty() && questions_.back().kind == question.kind) questions_.pop_back();
    if (questions_.size() >= kQuestionsMax) questions_.pop_front();
    questions_.push_back(std::move(question));
    changed_.notify_one();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stopping_ || !questions_.empty(); });
      if (stopping_) return;
      const cluster::LeadQuestion question = std::move(questions_.front());
      questions_.pop_front();
      lock.unlock();
      const auto answer = ask_now(question);
      if (answer)
        shell_.loop_.post([shell = &shell_, key = key_, answer = *answer] {
          shell->machine_.answered(key, answer, boot_now());
          shell->act();
        });
      lock.lock();
      if (!answer) link_.reset();
    }
  }

  Result<cluster::LeadAnswer> ask_now(const cluster::LeadQuestion& question) {
    if (key_ == shell_.options_.self.key) return shell_.options_.desk->answer(question, key_);
    std::shared_ptr<cluster::Link> link;
    {
      const std::lock_guard lock(mutex_);
      link = link_;
    }
    if (link == nullptr) {
      const std::string address = shell_.address_of(key_);
      if (address.empty()) return Status(Errc::kNotFound, "nobody knows where it is");
      cluster::Hello hello = shell_.options_.hello;
      hello.purpose = cluster::LinkPurpose::kLead;
      auto opened = open_link(*shell_.options_.transport, address, key_, hello, kConnectMax);
      if (!opened) return opened.status();
      link = std::move(*opened);
      const std::lock_guard lock(mutex_);
      if (stopping_) return Status(Errc::kCancelled, "it ends");
      link_ = link;
    }
    const std::vector<std::byte> body = question.encode();
    if (Status sent = cluster::send_message(*link, {.kind = cluster::MessageKind::kControl}, body, kAskMax);
        !sent)
      return sent;
    const auto reply = cluster::receive_message(*link, cluster::kLeadMessageMax, kAskMax);
    if (!reply) return reply.status();
    return cluster::LeadAnswer::decode(reply->body);
  }

  LeadShell& shell_;
  const std::string key_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<cluster::LeadQuestion> questions_;
  std::shared_ptr<cluster::Link> link_;
  bool stopping_ = false;
  std::thread thread_;
};

LeadShell::LeadShell(Options options)
    : options_(std::move(options)),
      machine_(seat_config(options_), options_.desk->record(), boot_now()),
      mandate_(machine_.mandate()),
      loop_([this] { tick(); }, kTick) {}

LeadShell::~LeadShell() { stop(); }

void LeadShell::start() { loop_.start(); }

void LeadShell::stop() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(stopped_, true)) return;
    changed_.notify_all();
  }
  const bool told = loop_.ask([this] {
    const bool leads = machine_.role() == cluster::LeadSeat::Role::kLeading;
    machine_.resign(boot_now());
    act();
    return leads;
  });
  if (told) SystemClock::instance().sleep_for(kLastWords);
  loop_.stop();
  copiers_.clear();
  askers_.clear();
}

LeadShell::View LeadShell::view() const {
  const std::lock_guard lock(mutex_);
  return view_;
}

cluster::Mandate LeadShell::mandate() const {
  const std::lock_guard lock(mutex_);
  return mandate_;
}

bool LeadShell::may_speak() const {
  const int64_t until = speak_until_.load(std::memory_order_acquire);
  return until == INT64_MAX || (until > 0 && boot_now().time_since_epoch().count() < until);
}

void LeadShell::want(std::function<Wanted()> wanted) {
  const std::lock_guard lock(mutex_);
  wanted_ = std::move(wanted);
}

void LeadShell::find_by(std::function<std::string(const std::string& key)> address) {
  const std::lock_guard lock(mutex_);
  address_ = std::move(address);
}

std::string LeadShell::address_of(const std::string& key) const {
  std::function<std::string(const std::string&)> find;
  {
    const std::lock_guard lock(mutex_);
    find = address_;
  }
  std::string address = find ? find(key) : std::string();
  return address.empty() ? options_.desk->address_of(key) : address;
}

void LeadShell::journal_is(const std::string& all) { mirror_.set(all); }

uint64_t LeadShell::journal_grew(const std::string& lines) {
  const uint64_t number = mirror_.append(lines);
  loop_.post([this, number] {
    machine_.appended(number, boot_now());
    act();
  });
  return number;
}

Status LeadShell::wait_safe(uint64_t number) const {
  std::unique_lock lock(mutex_);
  changed_.wait(
      lock, [&] { return safe_ >= number || stopped_ || view_.role != cluster::LeadSeat::Role::kLeading; });
  if (safe_ >= number) return {};
  return {Errc::kCancelled, "this node does not lead any more"};
}

cluster::LeadQuestion LeadShell::with_addresses(cluster::LeadQuestion question) const {
  for (const cluster::NodeId& node : question.mandate.everybody())
    if (const std::string address = address_of(node.key); !address.empty())
      question.addresses.push_back({node.key, address});
  return question;
}

void LeadShell::look_for_promotion() {
  const TimePoint now = system_now();
  if (now - looked_at_ < kPromotionLook) return;
  looked_at_ = now;
  if (!options_.folder.has(kPromoteFile)) return;
  const auto removed = reported([&] { return options_.folder.remove(kPromoteFile), true; });
  if (!removed || machine_.role() == cluster::LeadSeat::Role::kLeading) return;
  log_warn("this node takes the lead, since a person said so");
  machine_.take_lead(boot_now());
}

// A list that was asked for, or the second half of a change.
void LeadShell::want_mandate() {
  if (!options_.authority || machine_.role() != cluster::LeadSeat::Role::kLeading) return;
  std::function<Wanted()> ask;
  {
    const std::lock_guard lock(mutex_);
    ask = wanted_;
  }
  if (!ask) return;
  const Wanted wanted = ask();
  if (wanted.seats.empty()) return;
  auto next = machine_.next_of(wanted.seats, wanted.voters);
  if (!next) return;
  const auto is_signed = reported([&] { return next->sign(*options_.authority), true; });
  if (!is_signed) return log_warn("a new mandate cannot be signed: {}", is_signed.status().text());
  machine_.propose(std::move(*next), boot_now());
}

void LeadShell::tick() {
  machine_.set_clock(unix_ms());
  machine_.own_vote(options_.desk->record(), options_.desk->lease_left());
  look_for_promotion();
  machine_.tick(boot_now());
  want_mandate();
  act();
}

void LeadShell::act() {
  using Role = cluster::LeadSeat::Role;
  for (cluster::AskVoter& ask : machine_.take_questions()) {
    auto& asker = askers_[ask.to];
    if (asker == nullptr) asker = std::make_unique<Asker>(*this, ask.to);
    const bool renews = ask.question.kind == cluster::LeadQuestion::Kind::kRenew;
    asker->ask(renews ? with_addresses(std::move(ask.question)) : std::move(ask.question));
  }
  const bool leading = machine_.role() == Role::kLeading;
  if (leading)
    for (const cluster::NodeId& seat : machine_.mandate().seats) {
      if (seat == options_.self || copiers_.contains(seat.key)) continue;
      JournalCopier::Options copier;
      copier.connect = [this, key = seat.key]() -> Result<std::unique_ptr<cluster::Link>> {
        const std::string address = address_of(key);
        if (address.empty()) return Status(Errc::kNotFound, "nobody knows where it is");
        cluster::Hello hello = options_.hello;
        hello.purpose = cluster::LinkPurpose::kLead;
        return open_link(*options_.transport, address, key, hello, kConnectMax);
      };
      copier.question = {.term = machine_.term(), .holder = machine_.holder()};
      copier.copied = [this, key = seat.key](uint64_t number) {
        loop_.post([this, key, number] {
          machine_.copied(key, number, boot_now());
          act();
        });
      };
      copier.lost = [this, seat](const std::string& why) {
        log_debug("{}: the copy of the journal: {}", seat.name, why);
        loop_.post([this, key = seat.key] {
          machine_.copy_lost(key, boot_now());
          act();
        });
      };
      copiers_[seat.key] = std::make_unique<JournalCopier>(mirror_, std::move(copier));
    }
  speak_until_.store(!machine_.may_speak(boot_now()) ? 0
                     : machine_.alone()              ? INT64_MAX
                                                     : machine_.lease_until().time_since_epoch().count(),
                     std::memory_order_release);
  View next{.role = machine_.role(),
            .term = machine_.term(),
            .leader = leading ? options_.self.key : machine_.leader(),
            .why_not = machine_.why_not(),
            .in_sync = {}};
  for (const cluster::NodeId& seat : machine_.mandate().seats)
    if (leading && seat != options_.self && machine_.in_sync(seat.key)) next.in_sync.push_back(seat.name);
  const std::lock_guard lock(mutex_);
  if (leading && next.in_sync != view_.in_sync)
    log_info("{}", next.in_sync.empty()
                       ? std::string("no standby has the journal now")
                       : fmt::format("standby {} has the journal", fmt::join(next.in_sync, ", ")));
  view_ = std::move(next);
  mandate_ = machine_.mandate();
  safe_ = machine_.safe();
  changed_.notify_all();
}

}  // namespace butterfly::runtime
