#include "cluster/sim/simulator.h"

#include <cmath>
#include <deque>

#include "base/error.h"
#include "base/rng.h"
#include "cluster/sim/event_queue.h"

namespace butterfly::cluster {
namespace {

enum Kind : uint32_t { kArrival, kDelivered, kStepDone, kSpeedChange, kFail, kRecovered };

struct Sequence {
  double arrived_s = 0;
  double first_token_s = 0;
  uint32_t prompt_left = 0;
  uint32_t generate_left = 0;
  uint32_t generated = 0;
  uint32_t context = 0;
};

struct Batch {
  std::vector<uint32_t> sequences;
  uint32_t decode_rows = 0;
  uint32_t prefill_rows = 0;
  uint32_t number = 0;
};

struct StageState {
  std::deque<uint32_t> queue;  // batches that have arrived
  bool busy = false;
  bool down = false;
  uint32_t batch = 0;
  uint32_t version = 0;  // of the running step: older kStepDone events are stale
  double started_s = 0;
  double done_s = 0;
  double factor = 1;
  double down_since_s = 0;
  double queue_since_s = 0, queue_area = 0;
};

void check(const SimCluster& cluster, const Workload& w) {
  const size_t stages = cluster.stages.size();
  if (stages == 0) fail(Errc::kInvalidArgument, "nothing to simulate: no stages");
  if (cluster.links.size() != stages + 1)
    fail(Errc::kInvalidArgument, "{} links for {} stages, expected one more than stages",
         cluster.links.size(), stages);
  if (w.requests == 0 || w.batch_max == 0 || w.rows_max == 0 || w.streams_max == 0)
    fail(Errc::kInvalidArgument, "requests, batch, rows and streams: expected at least 1 of each");
  if (w.rate == 0 && w.clients == 0)
    fail(Errc::kInvalidArgument, "expected a rate of arrivals or at least 1 client");
  if (!(w.rate >= 0) || !std::isfinite(w.rate))
    fail(Errc::kInvalidArgument, "rate {}: expected at least 0", w.rate);
  if (w.generate_min == 0 || w.generate_max < w.generate_min || w.prompt_max < w.prompt_min)
    fail(Errc::kInvalidArgument,
         "tokens: expected generate of at least 1, and no range that ends before it begins");
  for (const Slowdown& s : w.slowdowns)
    if (s.stage >= stages || !(s.factor > 0) || !(s.to_s >= s.from_s))
      fail(Errc::kInvalidArgument,
           "slow-down of stage {} by {}: there are {} stages, expected a factor above 0", s.stage, s.factor,
           stages);
  for (const Failure& f : w.failures)
    if (f.stage >= stages || !(f.recovery_s >= 0))
      fail(Errc::kInvalidArgument, "failure of stage {}: there are {} stages", f.stage, stages);
}

class Simulator {
 public:
  Simulator(const SimCluster& cluster, const Workload& workload, const SimOptions& options)
      : cluster_(cluster), w_(workload), options_(options), stages_(cluster.stages.size()) {
    link_free_s_.assign(cluster.links.size(), 0);
    report_.stages.resize(cluster.stages.size());
    report_.links.resize(cluster.links.size());
    // Where the first stage is far away, batches leave early enough to be there when it is free.
    const SimLink& entry = cluster.links[0];
    const double message_s = entry.latency_s + entry.decode_row_bytes / entry.bandwidth;
    const double step_s = cluster.stages[0].seconds(1, 0);
    if (message_s > 0)
      first_max_ = 1 + static_cast<size_t>(std::clamp(std::ceil(message_s / step_s), 1.0, 64.0));
  }

  SimReport run() {
    for (uint32_t i = 0; i < w_.slowdowns.size(); ++i) {
      events_.push(w_.slowdowns[i].from_s, kSpeedChange, static_cast<uint32_t>(w_.slowdowns[i].stage), i, 1);
      events_.push(w_.slowdowns[i].to_s, kSpeedChange, static_cast<uint32_t>(w_.slowdowns[i].stage), i, 0);
    }
    for (uint32_t i = 0; i < w_.failures.size(); ++i)
      events_.push(w_.failures[i].at_s, kFail, static_cast<uint32_t>(w_.failures[i].stage), i, 0);
    if (w_.rate > 0) {
      events_.push(0, kArrival, 0, 0, 0);
    } else {
      for (size_t i = 0; i < std::min(w_.clients, w_.requests); ++i) arrive();
      form_batch();
    }
    while (finished_ < w_.requests) {
      const SimEvent event = events_.pop();
      now_s_ = event.time_s;
      ++report_.events;
      handle(event);
    }
    return finish();
  }

 private:
  void handle(const SimEvent& event) {
    switch (event.kind) {
      case kArrival:
        arrive();
        if (arrived_ < w_.requests)
          events_.push(now_s_ - std::log(1 - uniform(1)) / w_.rate, kArrival, 0, 0, 0);
        form_batch();
        break;
      case kDelivered:
        if (event.stage == stages_.size()) {
          complete(event.job);
        } else {
          enqueue(event.stage, event.job);
          start(event.stage);
        }
        break;
      case kStepDone:
        if (stages_[event.stage].version == event.version) step_done(event.stage);
        break;
      case kSpeedChange:
        change_speed(event.stage, event.version == 1 ? w_.slowdowns[event.job].factor
                                                     : 1 / w_.slowdowns[event.job].factor);
        break;
      case kFail:
        fail_stage(event.stage, w_.failures[event.job]);
        break;
      default:
        recover(event.stage, event.version);
    }
  }

  double uniform(uint64_t stream) {
    return static_cast<double>(random_u64(w_.seed, stream, draws_[stream]++) >> 11) * 0x1p-53;
  }
  uint32_t between(size_t low, size_t high, uint64_t stream) {
    return static_cast<uint32_t>(low +
                                 static_cast<size_t>(uniform(stream) * static_cast<double>(high - low + 1)));
  }

  void arrive() {
    uint32_t id;
    if (free_sequences_.empty()) {
      id = static_cast<uint32_t>(sequences_.size());
      sequences_.emplace_back();
    } else {
      id = free_sequences_.back();
      free_sequences_.pop_back();
    }
    Sequence& s = sequences_[id];
    s = {};
    s.arrived_s = now_s_;
    s.prompt_left = between(w_.prompt_min, w_.prompt_max, 2);
    s.generate_left = between(w_.generate_min, w_.generate_max, 3);
    ++arrived_;
    waiting_.push_back(id);
    admit();
  }

  void admit() {
    while (!waiting_.empty() && active_ < w_.streams_max) {
      ready_.push_back(waiting_.front());
      waiting_.pop_front();
      ++active_;
    }
  }

  // The first stage takes what waits longest, when it has nothing to do and nothing is on its way to it.
  void form_batch() {
    while (!ready_.empty() && first_count_ < first_max_ && !stages_[0].down) send_batch();
  }

  void send_batch() {
    uint32_t id;
    if (free_batches_.empty()) {
      id = static_cast<uint32_t>(batches_.size());
      batches_.emplace_back();
    } else {
      id = free_batches_.back();
      free_batches_.pop_back();
    }
    Batch& batch = batches_[id];
    batch.sequences.clear();
    batch.decode_rows = batch.prefill_rows = 0;
    batch.number = next_batch_++;
    while (!ready_.empty() && batch.sequences.size() < w_.batch_max) {
      Sequence& s = sequences_[ready_.front()];
      if (s.prompt_left > 0) {
        const auto room = static_cast<uint32_t>(w_.rows_max) - batch.prefill_rows;
        if (room == 0) break;
        const uint32_t rows = std::min(room, s.prompt_left);
        batch.prefill_rows += rows;
        s.prompt_left -= rows;
        s.context += rows;
      } else {
        ++batch.decode_rows;
        ++s.context;
      }
      batch.sequences.push_back(ready_.front());
      ready_.pop_front();
    }
    ++first_count_;
    send(0, id);
  }

  void send(uint32_t link_index, uint32_t id) {
    const SimLink& link = cluster_.links[link_index];
    const Batch& batch = batches_[id];
    const double bytes =
        batch.decode_rows * link.decode_row_bytes + batch.prefill_rows * link.prefill_row_bytes;
    const double busy = bytes / link.bandwidth;
    const double from = std::max(now_s_, link_free_s_[link_index]);
    link_free_s_[link_index] = from + busy;
    report_.links[link_index].busy_s += busy;
    report_.links[link_index].bytes += bytes;
    events_.push(from + busy + link.latency_s, kDelivered, link_index, id, 0);
  }

  void enqueue(uint32_t stage, uint32_t id) {
    note_queue(stage);
    stages_[stage].queue.push_back(id);
  }

  void note_queue(uint32_t stage) {
    StageState& s = stages_[stage];
    s.queue_area += static_cast<double>(s.queue.size()) * (now_s_ - s.queue_since_s);
    s.queue_since_s = now_s_;
  }

  void start(uint32_t stage) {
    StageState& s = stages_[stage];
    if (s.busy || s.down || s.queue.empty()) return;
    note_queue(stage);
    s.batch = s.queue.front();
    s.queue.pop_front();
    s.busy = true;
    s.started_s = now_s_;
    const Batch& batch = batches_[s.batch];
    s.done_s = now_s_ + s.factor * cluster_.stages[stage].seconds(batch.decode_rows, batch.prefill_rows);
    events_.push(s.done_s, kStepDone, stage, s.batch, ++s.version);
  }

  void stop_step(uint32_t stage) {
    StageState& s = stages_[stage];
    report_.stages[stage].busy_s += now_s_ - s.started_s;
    if (report_.intervals.size() < options_.intervals_max && now_s_ > options_.intervals_from_s)
      report_.intervals.push_back(
          {stage, s.started_s, now_s_, batches_[s.batch].number, batches_[s.batch].prefill_rows > 0, false});
    s.busy = false;
  }

  void step_done(uint32_t stage) {
    stop_step(stage);
    ++report_.stages[stage].steps;
    send(stage + 1, stages_[stage].batch);
    if (stage == 0) {
      --first_count_;
      form_batch();
    }
    start(stage);
  }

  void change_speed(uint32_t stage, double factor) {
    StageState& s = stages_[stage];
    s.factor *= factor;
    if (!s.busy) return;
    s.done_s = now_s_ + (s.done_s - now_s_) * factor;
    events_.push(s.done_s, kStepDone, stage, s.batch, ++s.version);
  }

  void fail_stage(uint32_t stage, const Failure& failure) {
    StageState& s = stages_[stage];
    if (s.busy) {
      stop_step(stage);
      ++s.version;
      ++report_.steps_lost;
      note_queue(stage);
      s.queue.push_front(s.batch);
    }
    if (!s.down) s.down_since_s = now_s_;
    s.down = true;
    double back_s = now_s_ + failure.recovery_s;
    if (failure.replay) {
      double rows = 0;
      for (const Sequence& sequence : sequences_) rows += sequence.context;
      if (rows > 0) back_s += s.factor * cluster_.stages[stage].seconds(0, rows);
    }
    // A second failure while it is gone starts the wait again: only the last recovery counts.
    events_.push(back_s, kRecovered, stage, 0, ++s.version);
  }

  void recover(uint32_t stage, uint32_t version) {
    StageState& s = stages_[stage];
    if (!s.down || s.version != version) return;
    s.down = false;
    report_.stages[stage].down_s += now_s_ - s.down_since_s;
    if (report_.intervals.size() < options_.intervals_max && now_s_ > options_.intervals_from_s)
      report_.intervals.push_back({stage, s.down_since_s, now_s_, 0, false, true});
    start(stage);
    if (stage == 0) form_batch();
  }

  // Back at the coordinator.
  void complete(uint32_t id) {
    Batch& batch = batches_[id];
    for (uint32_t sequence : batch.sequences) {
      Sequence& s = sequences_[sequence];
      if (s.prompt_left > 0) {  // another part of the prompt
        ready_.push_back(sequence);
        continue;
      }
      ++report_.tokens;
      if (s.generated++ == 0) s.first_token_s = now_s_;
      if (--s.generate_left > 0) {
        ready_.push_back(sequence);
        continue;
      }
      first_tokens_.push_back(s.first_token_s - s.arrived_s);
      requests_.push_back(now_s_ - s.arrived_s);
      if (s.generated > 1) tokens_.push_back((now_s_ - s.first_token_s) / (s.generated - 1));
      s.context = 0;
      free_sequences_.push_back(sequence);
      ++finished_;
      --active_;
      if (w_.rate == 0 && arrived_ < w_.requests) arrive();
    }
    free_batches_.push_back(id);
    admit();
    form_batch();
  }

  SimReport finish() {
    report_.end_s = now_s_;
    report_.requests = finished_;
    report_.tokens_per_s = now_s_ > 0 ? static_cast<double>(report_.tokens) / now_s_ : 0;
    for (uint32_t i = 0; i < stages_.size(); ++i) {
      SimStageReport& out = report_.stages[i];
      if (stages_[i].busy) out.busy_s += now_s_ - stages_[i].started_s;
      if (stages_[i].down) out.down_s += now_s_ - stages_[i].down_since_s;
      note_queue(i);
      out.idle_s = now_s_ - out.busy_s - out.down_s;
      out.utilisation = now_s_ > 0 ? out.busy_s / now_s_ : 0;
      out.mean_queue = now_s_ > 0 ? stages_[i].queue_area / now_s_ : 0;
    }
    for (SimLinkReport& link : report_.links) link.utilisation = now_s_ > 0 ? link.busy_s / now_s_ : 0;
    report_.first_token_s = percentiles_of(std::move(first_tokens_));
    report_.token_s = percentiles_of(std::move(tokens_));
    report_.request_s = percentiles_of(std::move(requests_));
    return std::move(report_);
  }

  const SimCluster& cluster_;
  const Workload& w_;
  const SimOptions& options_;
  EventQueue events_;
  std::vector<StageState> stages_;
  std::vector<double> link_free_s_;
  std::vector<Sequence> sequences_;
  std::vector<Batch> batches_;
  std::vector<uint32_t> free_sequences_, free_batches_;
  std::deque<uint32_t> waiting_;  // for room
  std::deque<uint32_t> ready_;    // for their next step
  size_t first_count_ = 0;        // batches on their way to the first stage, or in it
  size_t first_max_ = 1;
  size_t arrived_ = 0, finished_ = 0, active_ = 0;
  uint32_t next_batch_ = 0;
  uint64_t draws_[4] = {};
  double now_s_ = 0;
  std::vector<double> first_tokens_, tokens_, requests_;
  SimReport report_;
};

}  // namespace

Percentiles percentiles_of(std::vector<double> values) {
  Percentiles out;
  if (values.empty()) return out;
  std::sort(values.begin(), values.end());
  // Nearest rank: the smallest value that at least this share does not pass.
  const auto rank = [&](double share) {
    const auto n = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
    return values[std::max<size_t>(n, 1) - 1];
  };
  for (double v : values) out.mean += v;
  out.mean /= static_cast<double>(values.size());
  out.p50 = rank(0.50);
  out.p95 = rank(0.95);
  out.p99 = rank(0.99);
  out.max = values.back();
  return out;
}

SimReport simulate(const SimCluster& cluster, const Workload& workload, const SimOptions& options) {
  check(cluster, workload);
  return Simulator(cluster, workload, options).run();
}

}  // namespace butterfly::cluster
