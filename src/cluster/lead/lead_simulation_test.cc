// Seats and voters on a virtual clock and a bad network: kills, pauses, cuts, changes of the mandate. Two
// rules: who was followed by another is never heard again, and what a client saw something of is in every
// later journal.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <set>

#include "base/rng.h"
#include "cluster/lead/lead_seat.h"
#include "cluster/lead/lead_voter.h"

namespace butterfly::cluster {
namespace {

using std::chrono::milliseconds;
constexpr Duration kLease = std::chrono::seconds(3);
constexpr Duration kStep = milliseconds(10);

struct Draw {
  explicit Draw(uint64_t of) : seed(of) {}
  uint64_t below(uint64_t n) {
    return static_cast<uint64_t>(random_uniform(seed, 7, at++) * static_cast<float>(n));
  }
  bool one_in(uint64_t n) { return below(n) == 0; }
  uint64_t seed, at = 0;
};

struct Mail {
  TimePoint at = {};
  size_t from = 0, to = 0;
  std::optional<LeadQuestion> question;
  std::optional<LeadAnswer> answer;
  bool copy = false;  // an answer to kCopy; number is the journal's
  std::vector<int> journal = {};
};

struct Machine {
  NodeId id;
  bool up = true;
  TimePoint paused_until{}, starts_at{};
  double rate = 1;
  int lives = 0;
  VoterRecord disk;
  std::optional<LeadVoter> vote;
  std::optional<LeadSeat> seat;
  std::vector<int> journal;  // on disk
  uint64_t number = 0;       // of this process
  TimePoint ticked{};
  bool led = false;
};

class LeadSimulation {
 public:
  explicit LeadSimulation(uint64_t seed, bool tells = false) : draw_(seed), tells_(tells) {
    seats_ = 2 + draw_.below(2);
    const size_t count = std::max<size_t>(seats_, 3) + draw_.below(3);
    machines_.resize(count);
    for (size_t i = 0; i < count; ++i) {
      machines_[i].id = {std::string(1, static_cast<char>('a' + i)),
                         std::string(1, static_cast<char>('A' + i))};
      machines_[i].rate = 0.97 + 0.002 * static_cast<double>(draw_.below(30));
      start(machines_[i]);
    }
    cut_.assign(count * count, TimePoint{});
    choose_voters();
  }

  void play() {
    const TimePoint faults_end = TimePoint(std::chrono::seconds(60 + draw_.below(60)));
    while (now_ < faults_end && ok()) {
      step();
      if (draw_.one_in(60)) fault();
    }
    for (auto& until : cut_) until = {};
    for (Machine& machine : machines_) machine.starts_at = machine.paused_until = {};
    loss_ = 0;
    const TimePoint must_lead = now_ + std::chrono::seconds(40);
    while (now_ < must_lead && ok() && !led_for_a_second()) step();
    if (ok() && !led_for_a_second()) wrong_ = "nobody leads after the faults";
  }

  bool ok() const { return wrong_.empty(); }
  const std::string& wrong() const { return wrong_; }
  size_t leaders() const { return terms_.size(); }
  size_t seen() const { return seen_.size(); }
  // What everybody thinks at the end.
  std::string story() const {
    std::string text;
    for (const Machine& machine : machines_) {
      text +=
          fmt::format("{}: {}, promised {} to {}, mandate {} of {} voters and {} before, sync {}.{} of {}",
                      machine.id.key, machine.up ? "up" : "down", machine.disk.promised, machine.disk.holder,
                      machine.disk.mandate.version, machine.disk.mandate.voters.size(),
                      machine.disk.mandate.before.size(), machine.disk.sync.term, machine.disk.sync.number,
                      fmt::join(machine.disk.sync.keys, ","));
      if (machine.seat)
        text += fmt::format("; role {} in term {}, mandate {}: {}", static_cast<int>(machine.seat->role()),
                            machine.seat->term(), machine.seat->mandate().version, machine.seat->why_not());
      text += "\n";
    }
    return text;
  }

 private:
  TimePoint local(const Machine& machine) const {
    return TimePoint(
        std::chrono::hours(1) +
        Duration(static_cast<int64_t>(static_cast<double>(now_.time_since_epoch().count()) * machine.rate)));
  }
  size_t index_of(const Machine& machine) const { return static_cast<size_t>(&machine - machines_.data()); }

  void start(Machine& machine) {
    const TimePoint now = local(machine);
    machine.up = true;
    machine.led = false;
    machine.number = 0;
    machine.vote.emplace(machine.disk, kLease, now);
    machine.seat.reset();
    if (index_of(machine) >= seats_) return;
    LeadSeatConfig config{.self = machine.id, .founder = index_of(machine) == 0};
    config.instance = std::to_string(++machine.lives);
    config.seed = draw_.seed * 100 + index_of(machine) * 10 + static_cast<uint64_t>(machine.lives);
    machine.seat.emplace(config, machine.disk, now);
  }
  void kill(Machine& machine, Duration down) {
    machine.up = false;
    std::erase_if(mails_,
                  [&](const Mail& mail) { return mail.to == index_of(machine); });  // its links are gone
    machine.seat.reset();
    machine.vote.reset();
    machine.starts_at = now_ + down;
  }

  void choose_voters() {
    wanted_voters_.clear();
    wanted_seats_.clear();
    for (size_t i = 0; i < seats_; ++i) wanted_seats_.push_back(machines_[i].id);
    for (const Machine& machine : machines_)
      if (!draw_.one_in(3)) wanted_voters_.push_back(machine.id);
    while (wanted_voters_.size() < 3) wanted_voters_ = {machines_[0].id, machines_[1].id, machines_[2].id};
  }

  void send(Mail mail) {
    if (mail.from != mail.to) {
      if (cut_[mail.from * machines_.size() + mail.to] > now_ || draw_.below(100) < loss_) return;
      mail.at = now_ + milliseconds(1 + draw_.below(40));
      if (draw_.one_in(50)) mail.at += milliseconds(draw_.below(3000));
    } else {
      mail.at = now_;
    }
    mails_.push_back(std::move(mail));
  }
  size_t find(const std::string& key) const { return static_cast<size_t>(key[0] - 'a'); }

  void deliver(Mail& mail) {
    Machine& to = machines_[mail.to];
    if (!to.up) return;
    const TimePoint now = local(to);
    if (mail.question) {
      const LeadAnswer answer = to.vote->answer(*mail.question, machines_[mail.from].id.key, now);
      if (tells_ && !(to.disk == to.vote->record()))
        fmt::print("{:.2f} {} hears {} of {} {}: promised {} to {}, mandate {}, sync {}.{} {}\n",
                   seconds_of(now_.time_since_epoch()), to.id.key, static_cast<int>(mail.question->kind),
                   mail.question->holder, mail.question->term, to.vote->record().promised,
                   to.vote->record().holder, to.vote->record().mandate.version, to.vote->record().sync.term,
                   to.vote->record().sync.number, fmt::join(to.vote->record().sync.keys, ","));
      to.disk = to.vote->record();
      Mail back{.from = mail.to, .to = mail.from, .question = {}, .answer = answer};
      if (mail.question->kind == LeadQuestion::Kind::kCopy) {
        back.copy = true;
        if (answer.granted) to.journal = mail.journal;
      }
      send(std::move(back));
      return;
    }
    if (!to.seat) return;
    if (mail.copy) {
      if (mail.answer->granted && mail.answer->record.promised == to.seat->term())
        to.seat->copied(machines_[mail.from].id.key, mail.answer->number, now);
      return;
    }
    to.seat->answered(machines_[mail.from].id.key, *mail.answer, now);
  }

  void run(Machine& machine) {
    const TimePoint now = local(machine);
    if (!machine.seat) return;
    if (now - machine.ticked >= milliseconds(50)) {
      machine.ticked = now;
      machine.seat->set_clock(1000 + now_.time_since_epoch() / milliseconds(1));
      machine.seat->own_vote(machine.vote->record(), machine.vote->lease_left(now));
      machine.seat->tick(now);
      if (index_of(machine) == 0)
        if (auto next = machine.seat->next_of(wanted_seats_, wanted_voters_)) {
          if (tells_) fmt::print("{:.2f} proposes\n{}", seconds_of(now_.time_since_epoch()), next->text());
          machine.seat->propose(*next, now);
        }
    }
    if (machine.seat->role() == LeadSeat::Role::kLeading) work(machine, now);
    for (AskVoter& ask : machine.seat->take_questions())
      send({.at = {},
            .from = index_of(machine),
            .to = find(ask.to),
            .question = std::move(ask.question),
            .answer = {}});
    if (machine.seat->role() == LeadSeat::Role::kOver) kill(machine, milliseconds(100));
  }

  void work(Machine& machine, TimePoint now) {
    LeadSeat& seat = *machine.seat;
    if (!machine.led) {
      machine.led = true;
      terms_.insert(seat.term());
      base_ = machine.journal.size();
      for (const int entry : seen_)
        if (std::ranges::find(machine.journal, entry) == machine.journal.end())
          wrong_ = "entry " + std::to_string(entry) + " was seen and is lost in term " +
                   std::to_string(seat.term());
      // Numbers of the journal count from here.
      numbers_[seat.term()] = {};
    }
    bool copies = draw_.one_in(20);
    if (draw_.one_in(15)) {
      machine.journal.push_back(++entries_);
      numbers_[seat.term()].push_back(entries_);
      seat.appended(++machine.number, now);
      copies = true;
    }
    if (copies)
      for (size_t i = 0; i < seats_; ++i)
        if (i != index_of(machine)) {
          LeadQuestion copy{.kind = LeadQuestion::Kind::kCopy, .number = machine.number, .term = seat.term()};
          copy.holder = seat.holder();
          send({.at = {},
                .from = index_of(machine),
                .to = i,
                .question = copy,
                .answer = {},
                .journal = machine.journal});
        }
    if (!seat.may_speak(now)) return;
    if (seat.term() < newest_spoken_)
      wrong_ = "term " + std::to_string(seat.term()) + " speaks after " + std::to_string(newest_spoken_);
    newest_spoken_ = std::max(newest_spoken_, seat.term());
    const std::vector<int>& numbers = numbers_[seat.term()];
    for (uint64_t n = 1; n <= seat.safe(); ++n)
      if (seen_.insert(numbers[n - 1]).second && tells_)
        fmt::print("{:.2f} {} shows {} in term {}{}\n", seconds_of(now_.time_since_epoch()), machine.id.key,
                   numbers[n - 1], seat.term(), seat.alone() ? ", alone" : "");
    spoke_at_ = now_;
    if (spoke_since_ == TimePoint{} || spoke_term_ != seat.term()) spoke_since_ = now_;
    spoke_term_ = seat.term();
  }
  bool led_for_a_second() const {
    return spoke_since_ != TimePoint{} && spoke_at_ - spoke_since_ > std::chrono::seconds(1) &&
           now_ - spoke_at_ < milliseconds(100);
  }

  void step() {
    now_ += kStep;
    if (now_ - spoke_at_ > milliseconds(500)) spoke_since_ = {};
    std::vector<Mail> due;
    for (auto it = mails_.begin(); it != mails_.end();) {
      const bool later = it->at > now_ || (machines_[it->to].up && machines_[it->to].paused_until > now_);
      if (later) {
        ++it;
        continue;
      }
      due.push_back(std::move(*it));
      it = mails_.erase(it);
    }
    for (Mail& mail : due) deliver(mail);
    for (Machine& machine : machines_) {
      if (!machine.up && machine.starts_at <= now_) start(machine);
      if (machine.up && machine.paused_until <= now_) run(machine);
    }
  }

  void fault() {
    const size_t count = machines_.size();
    Machine& machine = machines_[draw_.one_in(2) ? draw_.below(seats_) : draw_.below(count)];
    const Duration time = milliseconds(100 + draw_.below(9000));
    switch (draw_.below(6)) {
      case 0:
        if (machine.up) kill(machine, time);
        return;
      case 1:
        machine.paused_until = now_ + time;
        return;
      case 2:  // one way
        cut_[draw_.below(count) * count + draw_.below(count)] = now_ + time;
        return;
      case 3: {  // two sides
        const uint64_t side = draw_.below(uint64_t{1} << count);
        for (size_t i = 0; i < count; ++i)
          for (size_t j = 0; j < count; ++j)
            if (((side >> i) & 1) != ((side >> j) & 1)) cut_[i * count + j] = now_ + time;
        return;
      }
      case 4:
        loss_ = draw_.below(40);
        return;
      default:
        choose_voters();
        return;
    }
  }

  Draw draw_;
  const bool tells_;  // its story
  size_t seats_ = 2;
  std::vector<Machine> machines_;
  std::vector<TimePoint> cut_;  // until then
  std::deque<Mail> mails_;
  TimePoint now_{};
  uint64_t loss_ = 0;
  std::vector<NodeId> wanted_seats_, wanted_voters_;
  size_t base_ = 0;
  int entries_ = 0;
  std::set<int> seen_;
  std::set<Term> terms_;
  std::map<Term, std::vector<int>> numbers_;
  Term newest_spoken_ = 0;
  TimePoint spoke_at_{}, spoke_since_{};
  Term spoke_term_ = 0;
  std::string wrong_;
};

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(LeadSimulation, OneLeadsAtATimeAndNothingSeenIsLost) {
  const uint64_t first = from_environment("BUTTERFLY_SEED", 0);
  const uint64_t count = first != 0 ? 1 : from_environment("BUTTERFLY_SEEDS", 100);
  size_t leaders = 0, seen = 0;
  for (uint64_t seed = std::max<uint64_t>(first, 1); seed < std::max<uint64_t>(first, 1) + count; ++seed) {
    LeadSimulation simulation(seed, first != 0);
    simulation.play();
    ASSERT_TRUE(simulation.ok()) << "seed " << seed << ": " << simulation.wrong() << "\n"
                                 << simulation.story();
    leaders += simulation.leaders();
    seen += simulation.seen();
  }
  if (first == 0) {
    EXPECT_GT(leaders, 2 * count) << "the test would show nothing";
    EXPECT_GT(seen, 20 * count);
  }
}

}  // namespace
}  // namespace butterfly::cluster
