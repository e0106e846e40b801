// What an engine has done so far, for metrics and health checks.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace butterfly::runtime {

// Counts by upper bound, as Prometheus wants them: buckets[i] counts values <= bounds()[i] and above the
// bound before; the last bucket has the rest. Plain data: the engine adds with its mutex held.
class Histogram {
 public:
  // 1 ms to 100 s in steps of 1, 2.5, 5.
  static constexpr std::array<double, 16> kSeconds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                                      0.5,   1,      2.5,   5,    10,    25,   50,  100};
  static constexpr size_t kBuckets = kSeconds.size() + 1;

  void add(Duration value);
  uint64_t count() const { return count_; }
  double sum_seconds() const { return sum_seconds_; }
  const std::array<uint64_t, kBuckets>& buckets() const { return buckets_; }

 private:
  std::array<uint64_t, kBuckets> buckets_{};
  uint64_t count_ = 0;
  double sum_seconds_ = 0;
};

// Of the requests that name one adapter, or of those that name none.
struct RequestCounts {
  size_t running = 0, waiting = 0;  // now
  // Since the start, as in EngineStats.
  uint64_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
};

struct EngineStats {
  // Now.
  size_t running = 0;
  size_t waiting = 0;
  size_t waiting_tokens = 0;
  size_t pages = 0;         // of the key/value cache
  size_t pages_used = 0;    // held by running requests
  size_t pages_cached = 0;  // unused, but kept for requests with the same beginning
  size_t page_positions = 0;
  bool draining = false;
  bool chain_lost = false;  // requests wait for another
  // Readiness: work is there, but no step has ended for long. `busy_since` is when the step under way, or the
  // wait for one, began; without work it is unset.
  std::optional<TimePoint> busy_since;
  std::optional<TimePoint> last_step;

  // Since the start.
  uint64_t submitted = 0;
  uint64_t refused = 0;                // queue full
  std::array<uint64_t, 8> finished{};  // by FinishReason
  uint64_t steps = 0;
  uint64_t rows = 0;             // computed, all kinds
  uint64_t prompt_tokens = 0;    // of finished and running requests, cached ones included
  uint64_t cached_tokens = 0;    // of those: not computed
  uint64_t restored_tokens = 0;  // brought back into the cache from disk
  uint64_t generated_tokens = 0;
  uint64_t draft_tokens = 0;
  uint64_t draft_accepted = 0;
  uint64_t ahead_steps = 0;  // begun in a chain before the text in front of them was known,
  uint64_t ahead_void = 0;   // and in vain
  uint64_t preemptions = 0;
  uint64_t chain_resets = 0;      // the chain was lost and its cache with it
  uint64_t again_rows = 0;        // rows computed again because a chain took the place of another,
  uint64_t again_row_layers = 0;  // and through how many layers, together
  // Changes of plan after which pages of layers that moved could be sent, and were, or were not.
  uint64_t moves_sent = 0, moves_computed = 0;
  uint64_t moved_bytes = 0;       // of pages that came,
  uint64_t moved_row_layers = 0;  // positions times layers
  uint64_t chains = 0;            // that took the place of another
  uint64_t stale_results = 0;     // of an older epoch, dropped
  Duration step_time{};           // in all, of these steps
  Duration engine_time{};         // and between them: planning, choosing tokens, sending

  Histogram queue_time;    // of requests that began
  Histogram first_token;   // time to the first token
  Histogram token_gap;     // between tokens of one request
  Histogram request_time;  // submit to the end
};

}  // namespace butterfly::runtime
