// Masks of constrained texts, computed beside the steps by threads of their own: rules that are slow to
// follow hold up their own request and nobody else's.
#pragma once
#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "model/sampling/token_constraint.h"

namespace butterfly::runtime {

class MaskWorker;

// The rules of one text with the mask of its next token. Shared by the text's session and the worker; while a
// mask is being computed the session does not touch the rules.
class RuledText {
 public:
  // `worker` null: masks are computed when they are asked for, by who asks.
  RuledText(std::unique_ptr<model::TokenConstraint> constraint, size_t vocab, MaskWorker* worker);

  // Waits for the mask. Nothing is allowed: no bit is set. Throws what computing it threw.
  std::span<const uint64_t> mask();
  // Goes on by a token that the mask allowed. Following it is part of the next mask's work, and if the rules
  // do not take it after all, that mask throws.
  void accept(int32_t token);
  // With the mask at hand, and no token accepted since.
  bool can_end() const { return constraint_->can_end(); }
  std::string why_dead_end() const { return constraint_->why_dead_end(); }

 private:
  friend class MaskWorker;
  enum class State { kUnknown, kWaiting, kReady };
  void compute() noexcept;

  std::unique_ptr<model::TokenConstraint> constraint_;
  std::vector<uint64_t> mask_;
  std::vector<int32_t> accepted_;  // since the last mask
  std::exception_ptr error_;
  MaskWorker* worker_;
  State state_ = State::kUnknown;                    // with the worker's mutex, if there is a worker
  std::chrono::steady_clock::duration last_time_{};  // of its last mask
  // Of the next one, if it takes as long; with the worker's mutex.
  std::chrono::steady_clock::time_point should_come_at_;
  bool slow_ = false;
};

// Two threads: one for texts whose masks come quickly, one for those whose last one took long, so that these
// wait for each other and the others do not wait for them. First come first served. A text waits for one mask
// at a time, so there are never more jobs than requests. Thread-safe.
class MaskWorker {
 public:
  // `on_ready` is called after each mask, from the worker's threads.
  explicit MaskWorker(std::function<void()> on_ready) : on_ready_(std::move(on_ready)) {}
  ~MaskWorker();

  // Begins to compute the text's next mask, unless it is known or on its way.
  void prepare(const std::shared_ptr<RuledText>& text);
  bool ready(const RuledText& text) const;
  // Its mask is not there, and takes so long that others should not wait for it.
  bool slow(const RuledText& text) const;
  // True if the mask is there by then. Does not wait for one that should not come in time.
  bool wait(const RuledText& text, std::chrono::steady_clock::time_point deadline) const;

 private:
  friend class RuledText;
  struct Lane {
    std::deque<std::shared_ptr<RuledText>> jobs;
    std::thread thread;  // from the first job on
  };
  void run(Lane& lane, int nice);

  const std::function<void()> on_ready_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::array<Lane, 2> lanes_;  // quick ones, slow ones
  bool stopping_ = false;
};

}  // namespace butterfly::runtime
