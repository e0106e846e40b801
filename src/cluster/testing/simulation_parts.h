// What a simulated cluster is made of. Only for the files of MemberSimulation.
#pragma once
#include <fmt/format.h>

#include "cluster/testing/member_simulation.h"

namespace butterfly::cluster::testing {

using std::chrono::milliseconds;
using std::chrono::seconds;

inline constexpr Duration kTick = milliseconds(50);
inline constexpr Duration kFaults = seconds(15);
// After the last fault: dead links are found (3 s), holds end (4 s, and again after a late failure), loads
// take their time, and what is then served must stay so.
inline constexpr Duration kPeace = seconds(45);
inline constexpr Duration kStable = seconds(15);
inline constexpr Duration kLately = seconds(6);
inline constexpr Duration kPeaceKill = seconds(38);  // without faults, from the start
inline constexpr Duration kStepDeadline = seconds(6);
inline constexpr uint64_t kPieceBytes = 1000;

struct MemberSimulation::Node {
  NodeId id;
  uint64_t memory_pieces = 0;
  std::unique_ptr<Worker> worker;  // null: the process does not run
  uint64_t life = 0;
  LinkNumber link = 0;
  TimePoint stopped_until{};  // SIGSTOP
  TimePoint stuck_until{};    // its compute thread hangs, its heartbeats go on
  TimePoint cut_off_until{};  // no packet gets through
  std::map<JobId, WorkerProgress> progress;
  std::map<JobId, Epoch> newest;  // that this process was told to load
  bool unreachable = false;       // a laptop behind a firewall: it calls, nobody can call it
  bool disk_full = false;         // nothing can be fetched to it
  bool slow_fetch = false;        // takes its time, and says so
  bool hostile = false;           // says whatever it likes
};

struct MemberSimulation::Wire {
  size_t node = 0;
  uint64_t coordinator_life = 0, node_life = 0;
  bool open_at_coordinator = true, open_at_worker = true;
  TimePoint last_to_worker{}, last_to_coordinator{};
};

// A job and its engine: one step at a time through the stages.
struct MemberSimulation::JobRun {
  JobId id = 0;
  uint32_t pieces = 0;
  uint64_t version = 1;  // of its model
  bool wanted = true;
  Epoch last_served = 0;
  uint64_t steps = 0;   // done
  TimePoint step_at{};  // the last of them
  Epoch killed_epoch = 0;
  TimePoint served_at{}, stepped_at{}, killed_at{};  // without faults: see run_in_peace()

  Epoch epoch = 0;  // 0: halted
  Placement placement;
  uint64_t step = 0;
  bool in_flight = false;
  Epoch pause_for = 0;  // asked to pause, answer with this
  bool paused = false;

  void halt() {
    epoch = pause_for = 0;
    in_flight = paused = false;
    placement = {};
    ++step;
  }
  ModelTask task() const {
    return {fmt::format("model-{}-{}", id, version), fmt::format("model-{}", id), ""};
  }
};

}  // namespace butterfly::cluster::testing
