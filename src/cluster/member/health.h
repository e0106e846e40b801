// Is a node alive? Beats say that its process runs, progress says that its work moves: a stopped process
// still acknowledges TCP, and a stuck one still beats.
#pragma once
#include <map>
#include <string>

#include "base/clock.h"
#include "cluster/member/control_message.h"

namespace butterfly::cluster {

// By flags of `serve`: networks that stutter want more, racks that must not stand still want less.
struct HealthLimits {
  Duration suspect_after = std::chrono::seconds(1);
  Duration dead_after = std::chrono::seconds(3);
};

// However slow its steps are, a stage may not stand still for longer. What gives steps up without knowing
// whose they are (the engine, sockets) waits longer than this.
inline constexpr Duration kStallMost = std::chrono::minutes(2);

enum class Verdict { kUp, kSuspect, kDead };

// What is known of one node's pulse. Plain data.
class Pulse {
 public:
  explicit Pulse(TimePoint now = {}) : heard_at_(now) {}

  void beat(const Beat& beat, TimePoint now);
  // This process stood still for so long and heard nobody: nobody is to blame.
  void forgive(Duration gap);
  // New work of this job begins: the time for its first progress starts now.
  void expect_progress(JobId job, TimePoint now) { jobs_[job].moved_at = now; }

  // `stall_after`: how long work may stand still, if that is longer than the limits say. Work of one job that
  // stands still is enough, whatever the others do.
  Verdict judge(const HealthLimits& limits, Duration stall_after, TimePoint now) const;
  // "no heartbeat for 3.00 s", "no progress for 3.10 s with 2 steps waiting".
  std::string words(TimePoint now) const;

  // The longest step of the stage it has of this job, as its beats tell: the mean of a beat with the largest
  // one. A machine that is slower than was predicted has its steps counted by what they take.
  Duration longest_step(JobId job) const;

  const Beat& last() const { return last_; }
  const JobBeat& last(JobId job) const;  // all zero where it has no work of it
  TimePoint heard_at() const { return heard_at_; }

 private:
  struct JobPulse {
    JobBeat last = {};
    TimePoint moved_at{};
    Duration longest_step{};
    bool working() const { return last.pending > 0; }
  };
  void beat(const JobBeat& beat, TimePoint now);
  // The work that has stood still longest; null: none is waiting.
  const JobPulse* slowest() const;

  Beat last_;
  TimePoint heard_at_;
  std::map<JobId, JobPulse> jobs_;
};

}  // namespace butterfly::cluster
