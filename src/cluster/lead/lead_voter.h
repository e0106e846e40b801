// A vote on who leads: promised to one at a time, for a while.
#pragma once
#include "cluster/lead/lead_record.h"

namespace butterfly::cluster {

// A node's vote. Answers questions of seats; what it answered holds over restarts of its process, for its
// shell writes record() to disk before the answer goes out. A pure state machine: times are this machine's,
// and count the time that it slept. Not thread-safe.
//
// Safe because of three rules: a term is promised to one holder; while a holder has its time nobody else is
// promised anything; and a process that begins again waits for that time, since it does not know what is left
// of it.
class LeadVoter {
 public:
  // `lease`: how long a promise keeps others out, the same everywhere.
  LeadVoter(VoterRecord record, Duration lease, TimePoint now);

  // `from`: the key of the link's other end. The mandate of the question has been checked. Refuses what does
  // not come from a seat. kCopy is judged only: whether the sender may.
  LeadAnswer answer(const LeadQuestion& question, const std::string& from, TimePoint now);

  // One that was passed on by others, and checked.
  void adopt(const Mandate& mandate) {
    if (mandate.version > record_.mandate.version) record_.mandate = mandate;
  }

  const VoterRecord& record() const { return record_; }
  Duration lease_left(TimePoint now) const { return until_ > now ? until_ - now : Duration{}; }

 private:
  std::string why_not(const LeadQuestion& question, const std::string& from, TimePoint now) const;

  VoterRecord record_;
  Duration lease_;
  TimePoint until_;
  uint64_t copy_number_ = 0;  // of the holder's copies: an old link's last words come too late
};

}  // namespace butterfly::cluster
