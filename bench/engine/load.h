// Requests for measuring, and a sink that notes when their tokens came.
#pragma once
#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include "base/rng.h"
#include "runtime/engine/local_engine.h"

namespace butterfly::bench {

using Seconds = double;

inline Seconds seconds_now(const Clock& clock = SystemClock::instance()) {
  return std::chrono::duration<double>(clock.now().time_since_epoch()).count();
}

// Thread-safe. `ended` is called once, by the engine's thread.
class Recorder final : public runtime::EventSink {
 public:
  explicit Recorder(const Clock& clock = SystemClock::instance(), std::function<void()> ended = {})
      : clock_(clock), ended_(std::move(ended)) {}
  struct Arrival {
    Seconds when;
    size_t tokens;
  };
  void on_tokens(runtime::RequestId, std::vector<runtime::TokenEvent> events) override {
    std::lock_guard lock(mutex_);
    arrivals_.push_back({seconds_now(clock_), events.size()});
    tokens_ += events.size();
    changed_.notify_all();
  }
  void on_finish(runtime::RequestId, runtime::FinishEvent event) override {
    if (ended_) ended_();
    std::lock_guard lock(mutex_);
    finish_ = std::move(event);
    finished_ = seconds_now(clock_);
    changed_.notify_all();
  }
  void wait_for_tokens(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return tokens_ >= count || finish_; });
  }
  const runtime::FinishEvent& wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return finish_.has_value(); });
    return *finish_;
  }
  std::vector<Arrival> arrivals() const {
    std::lock_guard lock(mutex_);
    return arrivals_;
  }
  Seconds finished() const { return finished_; }

 private:
  const Clock& clock_;
  const std::function<void()> ended_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Arrival> arrivals_;
  size_t tokens_ = 0;
  std::optional<runtime::FinishEvent> finish_;
  Seconds finished_ = 0;
};

inline std::vector<int32_t> random_prompt(size_t size, size_t vocab, uint64_t seed) {
  std::vector<int32_t> ids(size);
  for (size_t i = 0; i < size; ++i) ids[i] = static_cast<int32_t>(3 + random_u64(seed, 1, i) % (vocab - 3));
  return ids;
}

// Greedy, to the last token.
inline runtime::EngineRequest plain_request(std::vector<int32_t> prompt, size_t tokens) {
  runtime::EngineRequest request;
  request.prompt = std::move(prompt);
  request.tokens_max = tokens;
  request.ignore_eos = true;
  request.sampling.temperature = 0;
  return request;
}

inline std::shared_ptr<Recorder> start(runtime::Engine& engine, runtime::EngineRequest request,
                                       std::shared_ptr<Recorder> recorder = std::make_shared<Recorder>()) {
  auto id = engine.submit(std::move(request), recorder);
  std::move(id).or_throw();
  return recorder;
}

// Models and what the commands were told.
struct Setup {
  const runtime::LoadedModel& model;
  Compute& compute;
  size_t rounds;
  size_t streams;
  size_t prompt;
  size_t generate;
  float temperature;
};

// Of streams that were started together, at `begin`, with prompts of so many tokens.
struct StreamFigures {
  double prompt = 0;  // tokens/s, until all have their first token
  double decode = 0;  // while all of them run
  double total = 0;
  Seconds first_token = 0;  // the median
};
StreamFigures figures_of(std::span<const std::shared_ptr<Recorder>> streams, Seconds begin, size_t prompt);

void measure_streams(const Setup& setup);
void measure_adapters(const Setup& setup);
void measure_gap(const Setup& setup);
void measure_sampling(const Setup& setup);
void measure_speculation(const Setup& setup);

}  // namespace butterfly::bench
