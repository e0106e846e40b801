// One stage of a chain on one node: reads steps from the stage before, computes its layers, sends rows on.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "cluster/transport/link.h"
#include "runtime/chain/chain_options.h"
#include "runtime/chain/silence_watch.h"
#include "runtime/chain/stage_group.h"
#include "runtime/chain/step_message.h"
#include "runtime/chain/step_wait.h"

namespace butterfly::runtime {

struct StageRunnerStats {
  uint64_t epoch = 0;
  uint64_t step = 0;   // the last one sent on
  uint64_t steps = 0;  // since the runner was made, over all runs
  uint64_t rows = 0;
  uint64_t stale = 0;                 // messages of older epochs, dropped
  uint64_t failures = 0;              // steps that could not be computed
  uint64_t spins = 0, spin_hits = 0;  // see step_wait.h
  StageTimes times;                   // sums
  StageTimes last;                    // of the last step
};

// Any stage but the last one, which is the coordinator's (see linked_chain.h); or a member of any stage that
// is not its first: that one gets its steps from the first member, and sends nothing on. Borrows model and
// pool. The same runner serves one chain after the other with the same layers: run() again, with new links.
//
// Receives, computes and sends on the thread of run(): a thread that waits for the next message beside it
// would take the CPU that computes, and hand every step from thread to thread.
class StageRunner {
 public:
  // `place`: stages before this one. At place 0 the model must have its embedding, later ones must not.
  // Throws Error kInvalidArgument when layers and place do not fit or rows cannot travel in the format,
  // kOutOfMemory when the cache cannot be reserved.
  StageRunner(const LoadedModel& model, Compute& compute, size_t place, const ChainOptions& options);

  // Serves one chain until a link ends, and says why: kPeerLost, kCancelled after close(), kCorrupt when a
  // peer sent what it should not. Then both links are closed, so that the neighbours know at once. The links
  // may be one and the same: a chain of two stages. No page is placed at the start, and the epoch is 0. One
  // run at a time.
  Status run(std::shared_ptr<cluster::Link> from, std::shared_ptr<cluster::Link> to) {
    return run(std::move(from), std::move(to), nullptr);
  }
  // The same for a member of a stage that several share, whose links are closed too at the end. Other members
  // than the first get no links from and to other stages (null).
  Status run(std::shared_ptr<cluster::Link> from, std::shared_ptr<cluster::Link> to,
             std::shared_ptr<StageGroup> group);
  // Ends the run under way, if there is one. From any thread.
  void close();

  StageRunnerStats stats() const;
  // Beats on the links to others, and ends the run if one of them passes nothing for `limit` (see
  // SilenceWatch): the system itself notices that a minute later, or never. From any thread, now and then.
  void watch(Duration limit);
  // Whom watch() ended the last run for. Nobody else: a neighbour whose link closes has often lost its own
  // neighbour.
  cluster::NodeId blamed() const;
  // Both for heartbeats, from any thread. progress() counts steps and moves only when work is done. pending()
  // is 1 while a step is here that this stage should work on: being computed, or arrived and not taken. Time
  // in which a neighbour is waited for (the rest of a message, room to send) is not this stage's.
  uint64_t progress() const { return progress_.load(std::memory_order_relaxed); }
  uint32_t pending() const;
  const LoadedModel& model() const { return layers_.model(); }
  size_t cache_bytes() const { return layers_.cache_bytes(); }

 private:
  // The links of a run. `to` and `group` may be null.
  struct Ways {
    std::shared_ptr<cluster::Link> from, to;
    std::shared_ptr<StageGroup> group;
    void close() const;
  };
  Status serve();
  Status take(const cluster::MessageHead& head);
  Status read_body(const cluster::MessageHead& head, size_t bytes_max);
  void begin_epoch(uint64_t epoch);
  Status pass_on(const cluster::MessageHead& head);
  Status send_on(const cluster::MessageHead& head, std::span<const std::span<const std::byte>> pieces);
  Status take_reset(const cluster::MessageHead& head);
  Status take_resume(const cluster::MessageHead& head);
  Status take_fetch(const cluster::MessageHead& head);
  Status take_failure(const cluster::MessageHead& head);
  Status take_step(const cluster::MessageHead& head);
  Status send_rows(const cluster::MessageHead& head, std::span<const float> rows);

  // What the thread of run() does, for pending().
  enum class Doing : uint8_t { kWaiting, kReceiving, kComputing, kSending };
  void now_doing(Doing doing) { doing_.store(doing, std::memory_order_relaxed); }

  PagedLayers layers_;
  const size_t place_;
  const ChainOptions options_;
  const ChainLimits limits_;

  // Of the thread of run().
  Ways here_;
  uint64_t epoch_ = 0;
  uint64_t step_ = 0;
  bool failed_ = false;  // until the next reset: the cache is not what the coordinator thinks
  StageTimes times_;     // of the step at hand
  TimePoint free_since_{}, arrived_{};
  std::vector<std::byte> body_, times_bytes_, values_;
  std::vector<float> hidden_;
  StepMessage message_;
  StepWait wait_;

  mutable std::mutex mutex_;
  Ways ways_;  // of the run under way
  bool running_ = false;
  bool closed_ = false;  // close() came during this run
  SilenceWatch silence_;
  std::optional<SilenceWatch::Cut> cut_;  // watch() ended it
  cluster::NodeId blamed_;
  StageRunnerStats stats_;
  std::atomic<uint64_t> progress_{0};
  std::atomic<Doing> doing_{Doing::kWaiting};
};

}  // namespace butterfly::runtime
