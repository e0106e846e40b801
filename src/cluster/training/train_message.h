// What the leader and the members of a training job say to each other, and the few bytes before values that
// are sent from where they lie. Small, bounded, one list of fields per message for both writing and reading.
#pragma once
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "cluster/training/train_plan.h"
#include "cluster/transport/link.h"
#include "cluster/wire/packing.h"

namespace butterfly::cluster {

inline constexpr size_t kTrainMessageBytesMax = 4u << 20;
inline constexpr size_t kTrainConfigBytesMax = 256u << 10;
inline constexpr size_t kTrainBlocksMax = 1u << 18;      // norm blocks: 17 G parameters
inline constexpr uint32_t kTrainModesMax = 4;            // codes of gradients
inline constexpr uint32_t kTrainPiecesMax = 1u << 16;    // of a network that is cut into stages
inline constexpr uint32_t kTrainInFlightMax = 1u << 10;  // micro-batches at one stage
inline constexpr size_t kTrainLeavesMax = 1u << 16;      // micro-batches of a step

// ---- Leader to member ----

// The first message on a link from the leader. The model's file follows as values.
struct StartTraining {
  static constexpr uint8_t kType = 1;
  static constexpr std::string_view kName = "start training";
  uint64_t run = 0;  // drawn by the leader's process: links of peers name it
  TrainMemberId you = 0;
  std::string config = {};  // lines of TrainConfig
  uint64_t steps = 0;       // of the whole run: schedules need them
  uint64_t model_bytes = 0;
  // How much an item of a micro-batch has of each, and how many items it has: inputs of this size come.
  uint32_t items = 0, ids = 0, values = 0, targets = 0;
};
struct NewTrainPlan {
  static constexpr uint8_t kType = 2;
  static constexpr std::string_view kName = "training plan";
  TrainPlan plan = {};
};
// Where the member has leaves, their inputs follow as values.
struct DealtStep {
  static constexpr uint8_t kType = 3;
  static constexpr std::string_view kName = "dealt step";
  Epoch epoch = 0;
  uint64_t step = 0;
  uint64_t targets = 0;  // of all micro-batches
  std::vector<DealtLeaves> deal = {};
  bool trace = false;  // the next report has the spans of this step
};
struct CommitDealtStep {
  static constexpr uint8_t kType = 4;
  static constexpr std::string_view kName = "commit";
  Epoch epoch = 0;
  uint64_t step = 0;
  double norm = 0;  // of all gradients
  // Of a step that some ended early: what the sum is multiplied by, so that it is a mean of what there is.
  double scale = 1;
};
struct GatherTrainState {
  static constexpr uint8_t kType = 5;
  static constexpr std::string_view kName = "gather state";
  Epoch epoch = 0;
  uint64_t step = 0;
};
// Others are done with this step and have waited: the member ends its own steps with what it has.
struct CutDealtStep {
  static constexpr uint8_t kType = 7;
  static constexpr std::string_view kName = "cut short";
  Epoch epoch = 0;
  uint64_t step = 0;
};
// The run is over, or this member has no part in it any more.
struct EndTraining {
  static constexpr uint8_t kType = 6;
  static constexpr std::string_view kName = "end training";
  std::string why = {};
};
using ToTrainMember = std::variant<StartTraining, NewTrainPlan, DealtStep, CommitDealtStep, GatherTrainState,
                                   EndTraining, CutDealtStep>;

// ---- Member to leader ----

// What it will train: names, shapes and types of all parameters, and the optimizer, as one hash.
struct TrainingAgreed {
  static constexpr uint8_t kType = 1;
  static constexpr std::string_view kName = "training agreed";
  std::string agreement = {};  // SHA-256, hex
  std::string address = {};    // where peers reach it
  uint64_t memory_bytes = 0;   // that it has for training
};
struct TrainingReady {
  static constexpr uint8_t kType = 2;
  static constexpr std::string_view kName = "training ready";
  Epoch epoch = 0;
};
// Seconds of a member since its first step, by what its computing thread did; together all of them.
struct TrainTimes {
  double compute = 0;    // gradients
  double serialise = 0;  // coding them in fewer bits
  double compress = 0;
  double wire = 0;  // values handed to links
  double reduce = 0, update = 0;
  double wait = 0;   // for others
  double other = 0;  // messages, snapshots; of the leader also checkpoints and validation
  // Not of that thread, and in no sum: what another one compressed and handed to links meanwhile, without
  // keeping it waiting.
  double beside = 0;
  friend bool operator==(const TrainTimes&, const TrainTimes&) = default;
};
struct TrainTimeField {
  std::string_view name;
  double TrainTimes::*seconds;
};
inline constexpr TrainTimeField kTrainTimeFields[] = {
    {"compute", &TrainTimes::compute},   {"serialise", &TrainTimes::serialise},
    {"compress", &TrainTimes::compress}, {"wire", &TrainTimes::wire},
    {"reduce", &TrainTimes::reduce},     {"update", &TrainTimes::update},
    {"wait", &TrainTimes::wait},         {"other", &TrainTimes::other}};
// Kind of a span of the thread that sends beside the one that computes.
inline constexpr uint32_t kTrainSpanBeside = std::size(kTrainTimeFields);
// A part of a step, in seconds since the step was dealt.
struct TrainSpan {
  uint32_t field = 0;  // of kTrainTimeFields, or kTrainSpanBeside
  double begin = 0, end = 0;
  friend bool operator==(const TrainSpan&, const TrainSpan&) = default;
};
inline constexpr size_t kTrainSpansMax = 256;
struct LeavesDone {
  static constexpr uint8_t kType = 3;
  static constexpr std::string_view kName = "leaves done";
  Epoch epoch = 0;
  uint64_t step = 0;
  struct Leaf {
    double loss = 0;
    uint64_t correct = 0;
    friend bool operator==(const Leaf&, const Leaf&) = default;
  };
  std::vector<Leaf> leaves = {};  // of its range, in order
  double seconds = 0;             // of these leaves
  // Less than all where it was cut short: so many of them in order of its slots, with so many targets.
  uint64_t made = 0, targets = 0;
  TrainTimes times = {};
  double cpu_seconds = 0;                       // of its process since the first step, all threads
  uint64_t bytes_sent = 0, bytes_received = 0;  // over the links it has now
  // Gradients that were sent since it began: as floats they would be, and as they were.
  uint64_t gradient_bytes = 0, gradient_bytes_sent = 0;
  uint64_t weight_bytes = 0, weight_bytes_sent = 0;          // the same of new weights
  std::string packing_gradients = {}, packing_weights = {};  // whether they are compressed now, and why
  std::vector<TrainSpan> spans = {};                         // of the step before, if its deal asked for them
};
struct StepPrepared {
  static constexpr uint8_t kType = 4;
  static constexpr std::string_view kName = "step prepared";
  Epoch epoch = 0;
  uint64_t step = 0;
  std::vector<float> squares = {};  // of the norm blocks of its shard
};
// An owner's moments come before it, as values.
struct TrainStateReport {
  static constexpr uint8_t kType = 5;
  static constexpr std::string_view kName = "state report";
  Epoch epoch = 0;
  uint64_t step = 0;
  std::string hash = {};  // SHA-256 of all parameters, hex
};
// It cannot go on: the leader drops it.
struct TrainingFailed {
  static constexpr uint8_t kType = 6;
  static constexpr std::string_view kName = "training failed";
  std::string why = {};
};
using ToTrainLead =
    std::variant<TrainingAgreed, TrainingReady, LeavesDone, StepPrepared, TrainStateReport, TrainingFailed>;

// Between members: the first message on their link. Its first byte is no type of the others.
struct PeerGreeting {
  static constexpr uint8_t kType = 100;
  uint64_t run = 0;
  TrainMemberId from = 0, to = 0;
};

std::vector<std::byte> encode(const ToTrainMember& message);
std::vector<std::byte> encode(const ToTrainLead& message);
std::vector<std::byte> encode(const PeerGreeting& greeting);
// kCorrupt, with what was expected and found. What only the receiver knows (its blocks, its leaves) is left
// to it.
Result<ToTrainMember> decode_to_train_member(std::span<const std::byte> body);
Result<ToTrainLead> decode_to_train_lead(std::span<const std::byte> body);
Result<PeerGreeting> decode_peer_greeting(std::span<const std::byte> body);

// ---- Values ----

enum class TrainValues : uint8_t {
  kModel = 1,      // the file of StartTraining
  kInputs = 2,     // of the receiver's leaves: ids, values, targets of each
  kGradients = 3,  // the sum of a subtree over the receiver's shard
  kWeights =
      4,  // of the sender's shard; with `all`: parts of everything, in order, as the plan says who sends them
  kMoments = 5,  // of a shard, one array of the optimizer behind the other; then residuals, by slot. Of a
                 // stage: its weights first
  // Of a pipeline, one micro-batch each (`node.index`):
  kForward = 6,    // rows for the stage behind
  kBackward = 7,   // gradients of those, for the stage before
  kTableRows = 8,  // gradients of rows of the embedding's table, from the first stage to the tied head's
  kTable = 9,      // that table, back to the first stage, after each step
};

// Before the values of a message; epoch and step stand in its head. The receiver knows what it expects, and
// closes the link on anything else.
struct ValuesHead {
  TrainValues what = TrainValues::kModel;
  bool all = false;
  PairNode node = {};           // of gradients
  uint32_t begin = 0, end = 0;  // norm blocks
  uint8_t mode = 0;             // of gradients: how they are coded, as both ends know it; 0: floats
  // Of gradients and weights of a step: how they are compressed, as elements of so many bytes.
  Packing packing = Packing::kNone;
  uint8_t planes = 0;
  static constexpr size_t kBytes = 20;

  std::vector<std::byte> encode() const;
  static Result<ValuesHead> decode(std::span<const std::byte> bytes);
  friend bool operator==(const ValuesHead&, const ValuesHead&) = default;
};

}  // namespace butterfly::cluster
