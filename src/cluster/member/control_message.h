// What coordinator and workers say to each other: joining, health, placement. Small, bounded, one list of
// fields per message for both writing and reading.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/machine_load.h"
#include "base/result.h"
#include "cluster/member/placement.h"
#include "cluster/transport/link.h"

namespace butterfly::cluster {

inline constexpr uint32_t kMemberProtocol = 8;
inline constexpr size_t kControlBytesMax = 64 << 10;  // of an encoded message
inline constexpr size_t kNodesMax = 256;              // of a cluster
inline constexpr size_t kSourcesMax = 16;             // of weights, named in one assignment
inline constexpr size_t kRemovedMax = 512;            // keys in one message: the newest
inline constexpr size_t kLeadersMax = 8;              // that may lead
inline constexpr size_t kMandateBytesMax = 16 << 10;

// The work of one node in one epoch of a job. Everything it needs to load its pieces and to find its
// neighbours.
struct Assignment {
  JobId job = kFirstJob;
  Epoch epoch = 0;
  ModelTask model = {};
  uint32_t begin = 0, end = 0;  // pieces, of
  uint32_t pieces = 0;
  uint32_t stage = 0, stages = 0;
  // Of this stage, this node among them; mostly it is alone.
  struct Member {
    NodeId node = {};
    std::string address = {};  // where it accepts links
    Share share = {};
    bool operator==(const Member&) const = default;
  };
  std::vector<Member> members = {};
  uint32_t member = 0;  // which of them is meant
  const Member& self() const { return members[member]; }
  // First members of the stages beside it; of the first and the last stage: the coordinator.
  NodeId previous, next;
  std::string next_address = {};  // where `next` accepts links
  struct Source {
    NodeId node;
    std::string address;
    bool operator==(const Source&) const = default;
  };
  std::vector<Source> sources = {};  // who may have the weights, the coordinator first
  // Who had pieces of this stage in the plan before and is still here: their caches may have what its texts
  // need.
  struct Holder {
    NodeId node = {};
    std::string address = {};
    uint32_t begin = 0, end = 0;  // pieces, of this stage's
    double bytes_per_s = 0;       // from there to here, as measured; 0: not known
    bool operator==(const Holder&) const = default;
  };
  std::vector<Holder> holders = {};  // at most kSourcesMax
};

// Every message has a type, its first byte on the wire, and a name for logs and errors. Without either it
// does not compile. What belongs to a job says which, and in which epoch of it.

// ---- Worker to coordinator ----

// The first message on a link. `instance` is drawn when the process starts.
struct Join {
  static constexpr uint8_t kType = 1;
  static constexpr std::string_view kName = "join";
  uint32_t protocol = kMemberProtocol;
  uint64_t instance = 0;
  std::string address = {};  // where this node accepts links; empty: nobody can reach it
  int64_t unix_ms = 0;       // its time of day
  Capabilities capabilities = {};
};

enum class WorkerPhase : uint8_t { kIdle, kPreparing, kLoading, kReady, kRunning };

// What a node does for one job. `progress` grows with every unit of work done (a layer of a step, a block of
// a file); `pending` is work that has arrived and is not done. Both together are health: see health.h.
struct JobBeat {
  JobId job = kFirstJob;
  Epoch epoch = 0;  // of the stage it has; 0: none
  WorkerPhase phase = WorkerPhase::kIdle;
  uint64_t progress = 0;
  uint32_t pending = 0;
  uint64_t load_done = 0, load_total = 0;  // bytes, while preparing or loading
  // Since the stage started.
  uint64_t steps = 0, rows = 0;
  uint64_t compute_us = 0, wait_us = 0, wire_us = 0;
};

// What a node says of itself every beat.
struct Beat {
  static constexpr uint8_t kType = 2;
  static constexpr std::string_view kName = "beat";
  uint64_t ram_free_bytes = 0;  // for weights and cache of all jobs: what its stages hold counts as free
  MachineLoad machine = {};
  std::vector<JobBeat> jobs = {};  // those it has work of, each once
};

// The weights of a Prepare are on this node's disk and the next stage answers, or why not. `peer`: who does
// not answer.
struct Prepared {
  static constexpr uint8_t kType = 3;
  static constexpr std::string_view kName = "prepared";
  Epoch epoch = 0;
  Errc code = Errc::kOk;
  std::string text = {};
  NodeId peer = {};
  JobId job = kFirstJob;
};

// The pieces of an Assign are in memory, or why not.
struct Ready {
  static constexpr uint8_t kType = 4;
  static constexpr std::string_view kName = "ready";
  Epoch epoch = 0;
  Errc code = Errc::kOk;
  std::string text = {};
  uint64_t bytes = 0;  // in memory
  uint32_t ms = 0;     // it took
  JobId job = kFirstJob;
};

// After a Go: linked to the next stage and taking steps, or why not.
struct Started {
  static constexpr uint8_t kType = 5;
  static constexpr std::string_view kName = "started";
  Epoch epoch = 0;
  Errc code = Errc::kOk;
  std::string text = {};
  JobId job = kFirstJob;
};

// A running stage cannot go on because of `peer`.
struct Trouble {
  static constexpr uint8_t kType = 6;
  static constexpr std::string_view kName = "trouble";
  Epoch epoch = 0;
  NodeId peer = {};
  std::string text = {};
  JobId job = kFirstJob;
};

// The answer to a Measure.
struct LinkReport {
  static constexpr uint8_t kType = 7;
  static constexpr std::string_view kName = "link report";
  NodeId peer = {};
  Errc code = Errc::kOk;
  std::string text = {};
  LinkFigures figures = {};
};

// The node is about to end, on purpose.
struct Leave {
  static constexpr uint8_t kType = 8;
  static constexpr std::string_view kName = "leave";
  std::string text = {};
};

// The node is about to end, on purpose, and would have its parts moved away first. Retired answers.
struct Retire {
  static constexpr uint8_t kType = 9;
  static constexpr std::string_view kName = "retire";
  std::string text = {};
};

// ---- Coordinator to worker ----

struct Welcome {
  static constexpr uint8_t kType = 33;
  static constexpr std::string_view kName = "welcome";
  Incarnation incarnation = 0;
  Duration beat_every{};
  Duration silent_after{};  // a coordinator that says nothing for so long is gone, as it thinks of its nodes
  std::vector<std::string> removed = {};  // keys that may not connect any more; see Removed
};

// The last message on a link. `forever`: trying again will not help.
struct Refuse {
  static constexpr uint8_t kType = 34;
  static constexpr std::string_view kName = "refuse";
  bool forever = false;
  std::string text = {};
};

// "I am here", when nothing else is said.
struct Alive {
  static constexpr uint8_t kType = 35;
  static constexpr std::string_view kName = "alive";
  Incarnation incarnation = 0;
};

// These nodes were taken out of the cluster: their certificates are good for nothing from now on.
struct Removed {
  static constexpr uint8_t kType = 41;
  static constexpr std::string_view kName = "removed";
  Incarnation incarnation = 0;
  std::vector<std::string> keys = {};
};

// The job's change to `epoch` was given up: stop preparing or loading for it. What runs in another epoch goes
// on.
struct Abandon {
  static constexpr uint8_t kType = 42;
  static constexpr std::string_view kName = "abandon";
  Incarnation incarnation = 0;
  Epoch epoch = 0;
  JobId job = kFirstJob;
};

// After a Retire: the node has no part in anything any more, or why it keeps one (nothing fits without it).
// It may end.
struct Retired {
  static constexpr uint8_t kType = 44;
  static constexpr std::string_view kName = "retired";
  Incarnation incarnation = 0;
  std::string text = {};  // empty: nothing is left
};

// Something that whoever started this node should know: that others cannot reach it, say. Empty: that is
// over.
struct Notice {
  static constexpr uint8_t kType = 43;
  static constexpr std::string_view kName = "notice";
  Incarnation incarnation = 0;
  std::string text = {};
};

// Who else may lead this cluster, and where it was seen: to be asked when the coordinator is gone. `mandate`
// is what the authority signed (lead/mandate.h), for the shell; empty: nobody else.
struct Leaders {
  static constexpr uint8_t kType = 46;
  static constexpr std::string_view kName = "leaders";
  Incarnation incarnation = 0;
  std::string mandate = {};
  struct Seat {
    std::string key = {}, address = {};
    bool operator==(const Seat&) const = default;
  };
  std::vector<Seat> seats = {};
  bool operator==(const Leaders&) const = default;
};

// Have these weights on disk, and see whether the next stage can be reached. What runs goes on.
struct Prepare {
  static constexpr uint8_t kType = 36;
  static constexpr std::string_view kName = "prepare";
  Incarnation incarnation = 0;
  Assignment work = {};
};

// Drop what runs of this job, and load this.
struct Assign {
  static constexpr uint8_t kType = 37;
  static constexpr std::string_view kName = "assign";
  Incarnation incarnation = 0;
  Assignment work = {};
};

// All stages are loaded: link to the next one and take steps.
struct Go {
  static constexpr uint8_t kType = 38;
  static constexpr std::string_view kName = "go";
  Incarnation incarnation = 0;
  Epoch epoch = 0;
  JobId job = kFirstJob;
};

// This node has no part in `epoch` of the job: drop what is older, and free its memory.
struct Release {
  static constexpr uint8_t kType = 39;
  static constexpr std::string_view kName = "release";
  Incarnation incarnation = 0;
  Epoch epoch = 0;
  JobId job = kFirstJob;
  bool cache_wanted = false;  // others take over its pieces and may ask for what its cache holds
};

// Measure the link to this peer.
struct Measure {
  static constexpr uint8_t kType = 40;
  static constexpr std::string_view kName = "measure";
  Incarnation incarnation = 0;
  NodeId peer = {};
  std::string address = {};
};

using ToCoordinator = std::variant<Join, Beat, Prepared, Ready, Started, Trouble, LinkReport, Leave, Retire>;
using ToWorker = std::variant<Welcome, Refuse, Alive, Prepare, Assign, Go, Release, Measure, Removed, Abandon,
                              Notice, Retired, Leaders>;

// At most kControlBytesMax. BF_CHECKs that every text and list is within its bound: shorten() texts first.
std::vector<std::byte> encode(const ToCoordinator& message);
std::vector<std::byte> encode(const ToWorker& message);

// From a peer: kCorrupt, naming message and field, for anything that is not exactly one message of bounded
// parts.
Result<ToCoordinator> decode_to_coordinator(std::span<const std::byte> body);
Result<ToWorker> decode_to_worker(std::span<const std::byte> body);

// Beats are kHealth, all else kControl; with the message's epoch where it has one.
MessageHead head_of(const ToCoordinator& message);
MessageHead head_of(const ToWorker& message);

// For logs: "join", "assign".
std::string_view name_of(const ToCoordinator& message);
std::string_view name_of(const ToWorker& message);

// The text cut to what a message may hold.
std::string shorten(std::string text);

}  // namespace butterfly::cluster
