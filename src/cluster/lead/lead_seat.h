// A node that may lead: stands by, takes over when who leads is gone, and knows when it may not lead any
// more.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cluster/lead/lead_record.h"

namespace butterfly::cluster {

struct LeadSeatConfig {
  NodeId self = {};
  bool founder = false;       // leads where there is no mandate: the certificates name it
  std::string instance = {};  // random, drawn at start
  Duration lease = std::chrono::seconds(3);
  Duration renew_every = std::chrono::milliseconds(400);
  Duration round_max = std::chrono::milliseconds(1500);  // for answers to a look or a claim
  Duration copy_max = std::chrono::seconds(1);  // a seat that does not have an entry for so long is let go
  Term after = 0;                               // terms of this seat are larger
  uint64_t seed = 0;                            // of pauses between tries
};

// Ask this node; answered() when it has, and nothing when it does not.
struct AskVoter {
  std::string to = {};
  LeadQuestion question = {};
};

// One of the mandate's seats. A pure state machine (see LeadVoter for times); its own vote is asked like the
// others.
//
// It leads while a quorum renewed its time: may_speak(). A leader that a person made one (take_lead()), or of
// a mandate with fewer than three voters, leads without asking, until it hears of a later term.
//
// The journal has numbers. One is safe() when every seat of the sync record has it and a quorum knows that
// record: whoever leads next has it, since only seats of the record claim. A seat that does not copy in time
// is taken out of the record first, and put back when it has all.
//
// After kOver nothing happens any more: the process begins again as a standby. Not thread-safe.
class LeadSeat {
 public:
  enum class Role : uint8_t { kStandby, kLooking, kClaiming, kLeading, kOver };

  // `own`: the record of this node's vote.
  LeadSeat(LeadSeatConfig config, VoterRecord own, TimePoint now);

  // ---- Events ----
  void tick(TimePoint now);  // about every 50 ms
  // What this node's own vote has now, and for how long its holder has time: told before every tick.
  void own_vote(const VoterRecord& record, Duration lease_left);
  void answered(const std::string& from, const LeadAnswer& answer, TimePoint now);
  // A person says that nobody else leads, and that what this node has of the journal is good enough.
  void take_lead(TimePoint now);
  void resign(TimePoint now);
  // A signed mandate with other seats or voters; only who leads. Its version and `before` are those of
  // next_of().
  void propose(Mandate mandate, TimePoint now);
  // Of who leads: the journal has entries up to `number`; this seat has them; it lost contact.
  void appended(uint64_t number, TimePoint now);
  void copied(const std::string& seat, uint64_t number, TimePoint now);
  void copy_lost(const std::string& seat, TimePoint now);
  void set_clock(int64_t unix_ms) { unix_ms_ = unix_ms; }  // before tick: terms are near the time of day

  std::vector<AskVoter> take_questions();

  // ---- State ----
  Role role() const { return role_; }
  Term term() const { return term_; }
  std::string holder() const { return config_.self.key + ":" + config_.instance; }
  // What clients get now comes from who leads.
  bool may_speak(TimePoint now) const;
  TimePoint lease_until() const { return lease_until_; }  // not alone()
  bool alone() const { return alone_; }
  uint64_t safe() const;  // number of the journal
  bool in_sync(const std::string& seat) const { return sync_.has(seat); }
  const Mandate& mandate() const { return mandate_; }
  // What should take the place of mandate(): a list that differs, or the second half of a change. Unsigned;
  // none: all is as it should be, or a change is under way.
  std::optional<Mandate> next_of(const std::vector<NodeId>& seats, const std::vector<NodeId>& voters) const;
  // Who leads, as its own vote knows: a key; empty: nobody.
  std::string leader() const { return own_left_ > Duration{} ? holder_key(own_.holder) : std::string(); }
  const std::string& why_not() const { return why_not_; }  // it does not lead, for people

 private:
  struct Peer {
    std::optional<LeadAnswer> answer;  // of this round
    TimePoint granted{};               // when the renewal was sent that it granted last
    uint64_t sync_number = 0;          // of this term, that it knows
    uint64_t mandate_version = 0;
    uint64_t copied = 0;
    std::optional<TimePoint> behind_since;
  };
  void ask_all(LeadQuestion::Kind kind, TimePoint now);
  void look(TimePoint now);
  void judge_look(TimePoint now);
  void judge_claim(TimePoint now);
  void lead(TimePoint now);
  void stand_by(std::string why, TimePoint now);
  void set_sync(std::vector<std::string> keys, TimePoint now);
  void renewed(TimePoint now);
  void watch_copies(TimePoint now);
  bool heard_all_seats() const;
  Duration pause();

  const LeadSeatConfig config_;
  VoterRecord own_;
  Duration own_left_{};
  Mandate mandate_;
  Role role_ = Role::kStandby;
  TimePoint since_{}, next_at_{};
  Term term_ = 0;
  bool alone_ = false;
  bool own_promised_ = false;  // its own vote keeps older leaders out
  bool resigned_ = false;
  TimePoint lease_until_{};
  SyncRecord sync_;
  uint64_t appended_ = 0;
  mutable uint64_t safe_ = 0;
  std::map<std::string, Peer> peers_;
  std::map<uint64_t, TimePoint>
      sent_;  // numbers of questions under way; bounded by what is forgotten in ask_all()
  uint64_t number_ = 0, round_ = 0, pauses_ = 0;
  int64_t unix_ms_ = 0;
  std::string why_not_;
  std::vector<AskVoter> questions_;
};

}  // namespace butterfly::cluster
