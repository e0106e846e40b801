#include "cluster/lead/lead_seat.h"

#include <algorithm>

#include "base/rng.h"

namespace butterfly::cluster {
namespace {

constexpr size_t kSentMax = 64;  // questions whose sending time is remembered

// Clocks of machines run at rates that differ by far less: a leader stops before any voter forgets it.
constexpr Duration worn(Duration lease) { return lease * 9 / 10; }

bool same(std::vector<NodeId> a, std::vector<NodeId> b) {
  std::ranges::sort(a);
  std::ranges::sort(b);
  return a == b;
}

}  // namespace

LeadSeat::LeadSeat(LeadSeatConfig config, VoterRecord own, TimePoint now)
    : config_(std::move(config)), own_(std::move(own)), mandate_(own_.mandate), since_(now), next_at_(now) {}

std::vector<AskVoter> LeadSeat::take_questions() { return std::exchange(questions_, {}); }

void LeadSeat::own_vote(const VoterRecord& record, Duration lease_left) {
  own_ = record;
  own_left_ = lease_left;
  if (own_.mandate.version > mandate_.version && role_ != Role::kLeading) mandate_ = own_.mandate;
}

Duration LeadSeat::pause() {
  const float draw = random_uniform(config_.seed, 0, ++pauses_);
  return Duration(static_cast<int64_t>(static_cast<double>(config_.lease.count()) * (0.05 + 0.3 * draw)));
}

void LeadSeat::ask_all(LeadQuestion::Kind kind, TimePoint now) {
  LeadQuestion question{.kind = kind, .number = ++number_, .term = term_, .holder = holder()};
  question.mandate = mandate_;
  if (role_ == Role::kLeading) question.sync = sync_;
  round_ = number_;
  sent_[number_] = now;
  while (sent_.size() > kSentMax) sent_.erase(sent_.begin());
  for (const NodeId& node : mandate_.everybody()) questions_.push_back({node.key, question});
}

void LeadSeat::stand_by(std::string why, TimePoint now) {
  // Who voted for it may vote for another at once.
  if (role_ == Role::kClaiming) ask_all(LeadQuestion::Kind::kResign, now);
  role_ = Role::kStandby;
  why_not_ = std::move(why);
  since_ = now;
  next_at_ = now + pause();
}

// ---- Taking over ----

void LeadSeat::look(TimePoint now) {
  for (auto& [key, peer] : peers_) peer.answer.reset();
  role_ = Role::kLooking;
  since_ = now;
  ask_all(LeadQuestion::Kind::kLook, now);
}

bool LeadSeat::heard_all_seats() const {
  return std::ranges::all_of(mandate_.seats, [&](const NodeId& seat) {
    const auto found = peers_.find(seat.key);
    return found != peers_.end() && found->second.answer.has_value();
  });
}

// Nobody may have time left, and nobody is asked for a vote before a majority looks as if it would give it: a
// seat that is cut off does not unmake a leader that works.
void LeadSeat::judge_look(TimePoint now) {
  Term newest = std::max(own_.promised, config_.after);
  bool busy = false;
  for (auto& [key, peer] : peers_) {
    if (!peer.answer) continue;
    const VoterRecord& record = peer.answer->record;
    if (record.mandate.version > mandate_.version) {
      mandate_ = record.mandate;
      return stand_by("there is a newer mandate", now);
    }
    newest = std::max(newest, record.promised);
    if (peer.answer->lease_left > Duration{} && record.holder != holder()) busy = true;
  }
  const bool ours = own_.holder.empty() ? config_.founder : holder_key(own_.holder) == config_.self.key;
  if (!mandate_.by_majority()) {
    if (busy) return stand_by("another one leads", now);
    if (!ours || newest > own_.promised)
      return stand_by("another node led last: 'butterfly promote' on this one, when that is gone", now);
    if (!heard_all_seats()) {
      if (now - since_ > config_.round_max)
        stand_by("another seat does not answer, and may lead: 'butterfly promote', when it is gone", now);
      return;
    }
    return take_lead(now);
  }
  const auto free = [&](const std::string& key) {
    const auto found = peers_.find(key);
    return found != peers_.end() && found->second.answer &&
           (found->second.answer->lease_left == Duration{} ||
            found->second.answer->record.holder == holder());
  };
  if (!mandate_.quorum(free)) {
    if (now - since_ > config_.round_max)
      stand_by(busy ? "another one leads" : "no majority of the voters answers", now);
    return;
  }
  term_ = std::max<Term>(newest + 1, static_cast<Term>(std::max<int64_t>(unix_ms_, 1)));
  for (auto& [key, peer] : peers_) peer.answer.reset();
  role_ = Role::kClaiming;
  since_ = now;
  ask_all(LeadQuestion::Kind::kClaim, now);
}

void LeadSeat::judge_claim(TimePoint now) {
  SyncRecord known = own_.sync;
  for (const auto& [key, peer] : peers_)
    if (peer.answer && peer.answer->granted && peer.answer->record.sync.newer_than(known))
      known = peer.answer->record.sync;
  const auto granted = [&](const std::string& key) {
    const auto found = peers_.find(key);
    return found != peers_.end() && found->second.answer && found->second.answer->granted;
  };
  // Its own vote too: it takes no copy of an older leader from then on.
  if (!mandate_.quorum(granted) || !granted(config_.self.key)) {
    if (now - since_ > config_.round_max) stand_by("no majority of the voters agrees", now);
    return;
  }
  if (known.term != 0 && !known.has(config_.self.key))
    return stand_by("what this node has of the journal is not all: 'butterfly promote' takes it as it is",
                    now);
  alone_ = false;
  lead(now);
}

void LeadSeat::lead(TimePoint now) {
  role_ = Role::kLeading;
  since_ = next_at_ = now;
  why_not_.clear();
  peers_.clear();
  appended_ = safe_ = 0;
  lease_until_ = now;                     // until a majority has heard so
  own_promised_ = mandate_.version == 0;  // where nobody may lead there is nothing to forget
  sync_ = {.term = term_, .number = 0, .keys = {}};
  set_sync({config_.self.key}, now);
}

void LeadSeat::take_lead(TimePoint now) {
  Term newest = std::max(own_.promised, config_.after);
  for (const auto& [key, peer] : peers_)
    if (peer.answer) newest = std::max(newest, peer.answer->record.promised);
  term_ = std::max<Term>(newest + 1, static_cast<Term>(std::max<int64_t>(unix_ms_, 1)));
  alone_ = true;
  lead(now);
}

// ---- Leading ----

bool LeadSeat::may_speak(TimePoint now) const {
  if (role_ != Role::kLeading || resigned_ || !own_promised_) return false;
  return alone_ || now < lease_until_;
}

void LeadSeat::resign(TimePoint now) {
  if (role_ == Role::kLeading) ask_all(LeadQuestion::Kind::kResign, now);
  resigned_ = true;
  role_ = Role::kOver;
}

void LeadSeat::set_sync(std::vector<std::string> keys, TimePoint now) {
  sync_.keys = std::move(keys);
  ++sync_.number;
  next_at_ = now;
}

void LeadSeat::propose(Mandate mandate, TimePoint now) {
  if (role_ != Role::kLeading || mandate.version <= mandate_.version) return;
  mandate_ = std::move(mandate);
  next_at_ = now;
}

std::optional<Mandate> LeadSeat::next_of(const std::vector<NodeId>& seats,
                                         const std::vector<NodeId>& voters) const {
  if (role_ != Role::kLeading) return std::nullopt;
  Mandate next{.version = mandate_.version + 1, .seats = seats, .voters = voters};
  if (!mandate_.before.empty()) {
    // Both majorities have it, and know who has the journal: those before need not be asked any more.
    const bool known = mandate_.quorum([&](const std::string& key) {
      const auto found = peers_.find(key);
      return found != peers_.end() && found->second.mandate_version >= mandate_.version &&
             found->second.sync_number >= sync_.number;
    });
    if (!known || (alone_ && mandate_.by_majority())) return std::nullopt;
    next.seats = mandate_.seats;
    next.voters = mandate_.voters;
    return next;
  }
  if (same(seats, mandate_.seats) && same(voters, mandate_.voters)) return std::nullopt;
  next.before = mandate_.version == 0 ? std::vector<NodeId>{config_.self} : mandate_.voters;
  return next;
}

void LeadSeat::renewed(TimePoint) {
  // The latest moment since which a quorum has renewed.
  std::vector<TimePoint> moments;
  for (const auto& [key, peer] : peers_) moments.push_back(peer.granted);
  std::ranges::sort(moments, std::greater());
  for (const TimePoint moment : moments) {
    if (moment == TimePoint{}) break;
    const bool enough = mandate_.quorum([&](const std::string& key) {
      const auto found = peers_.find(key);
      return found != peers_.end() && found->second.granted >= moment;
    });
    if (!enough) continue;
    lease_until_ = std::max(lease_until_, moment + worn(config_.lease));
    // A majority decides from now on.
    if (mandate_.by_majority()) alone_ = false;
    break;
  }
}

void LeadSeat::appended(uint64_t number, TimePoint now) {
  appended_ = std::max(appended_, number);
  watch_copies(now);
}

void LeadSeat::copied(const std::string& seat, uint64_t number, TimePoint now) {
  if (role_ != Role::kLeading || !mandate_.may_lead(seat) || seat == config_.self.key) return;
  Peer& peer = peers_[seat];
  peer.copied = std::max(peer.copied, number);
  if (peer.copied >= appended_) peer.behind_since.reset();
  if (peer.copied >= appended_ && !sync_.has(seat)) {
    std::vector<std::string> keys = sync_.keys;
    keys.push_back(seat);
    set_sync(std::move(keys), now);
  }
}

void LeadSeat::copy_lost(const std::string& seat, TimePoint now) {
  if (role_ != Role::kLeading || seat == config_.self.key) return;
  peers_[seat].copied = 0;
  if (!sync_.has(seat)) return;
  std::vector<std::string> keys = sync_.keys;
  std::erase(keys, seat);
  set_sync(std::move(keys), now);
}

void LeadSeat::watch_copies(TimePoint now) {
  if (role_ != Role::kLeading) return;
  for (auto& [key, peer] : peers_) {
    if (key == config_.self.key || !sync_.has(key) || peer.copied >= appended_) {
      peer.behind_since.reset();
      continue;
    }
    if (!peer.behind_since) peer.behind_since = now;
    if (now - *peer.behind_since > config_.copy_max) {
      peer.behind_since.reset();
      copy_lost(key, now);
      return;  // one at a time
    }
  }
}

uint64_t LeadSeat::safe() const {
  if (role_ != Role::kLeading) return safe_;
  const bool known = mandate_.version == 0 || alone_ || mandate_.quorum([&](const std::string& key) {
    const auto found = peers_.find(key);
    return found != peers_.end() && found->second.sync_number >= sync_.number;
  });
  if (!known) return safe_;
  uint64_t all = appended_;
  for (const std::string& key : sync_.keys) {
    if (key == config_.self.key) continue;
    const auto found = peers_.find(key);
    all = std::min(all, found == peers_.end() ? 0 : found->second.copied);
  }
  safe_ = std::max(safe_, all);
  return safe_;
}

// ---- Events ----

void LeadSeat::answered(const std::string& from, const LeadAnswer& answer, TimePoint now) {
  if (role_ == Role::kOver) return;
  if (role_ == Role::kLeading) {
    if (answer.record.promised > term_) {
      role_ = Role::kOver;
      why_not_ = "another one leads by now";
      return;
    }
    const auto sent = sent_.find(answer.number);
    if (!answer.granted || sent == sent_.end() || answer.record.promised != term_) return;
    Peer& peer = peers_[from];
    peer.granted = std::max(peer.granted, sent->second);
    if (from == config_.self.key) own_promised_ = true;
    if (answer.record.sync.term == term_)
      peer.sync_number = std::max(peer.sync_number, answer.record.sync.number);
    peer.mandate_version = std::max(peer.mandate_version, answer.record.mandate.version);
    return renewed(now);
  }
  if (answer.number != round_ || (role_ != Role::kLooking && role_ != Role::kClaiming)) return;
  peers_[from].answer = answer;
  if (role_ == Role::kLooking)
    judge_look(now);
  else
    judge_claim(now);
}

void LeadSeat::tick(TimePoint now) {
  switch (role_) {
    case Role::kStandby:
      if (own_left_ > Duration{}) {
        next_at_ = now + pause();
        why_not_ = "another one leads";
      } else if (now >= next_at_ && mandate_.version == 0) {
        if (config_.founder) take_lead(now);
      } else if (now >= next_at_ && mandate_.may_lead(config_.self.key)) {
        look(now);
      }
      return;
    case Role::kLooking:
      return judge_look(now);
    case Role::kClaiming:
      return judge_claim(now);
    case Role::kLeading:
      watch_copies(now);
      // Cut off, or some voted for another of the same term: it begins again, as a standby.
      if (!alone_ && now - std::max(lease_until_, since_) > 2 * config_.lease) {
        role_ = Role::kOver;
        why_not_ = "no majority of the voters answers";
        return;
      }
      if (now < next_at_) return;
      next_at_ = now + config_.renew_every;
      return ask_all(LeadQuestion::Kind::kRenew, now);
    case Role::kOver:
      return;
  }
}

}  // namespace butterfly::cluster
