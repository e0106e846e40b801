// Collects a request's events and waits for its end. For tests.
#pragma once
#include <condition_variable>
#include <mutex>

#include "base/check.h"
#include "runtime/engine/engine.h"

namespace butterfly::runtime::testing {

// Filled by the engine's thread, read by the test's: everything but events() and what is made of them may be
// called at any time.
class Collector final : public EventSink {
 public:
  void on_prompt(RequestId, std::vector<TokenEvent> events) override {
    std::lock_guard lock(mutex_);
    prompt_ = std::move(events);
  }
  void on_tokens(RequestId, std::vector<TokenEvent> events) override {
    std::unique_lock lock(mutex_);
    BF_CHECK(!finish_) << "tokens behind the end";
    for (TokenEvent& event : events) events_.push_back(std::move(event));
    changed_.notify_all();
    changed_.wait(lock, [&] { return events_.size() < stand_; });
  }
  void on_finish(RequestId, FinishEvent event) override {
    std::lock_guard lock(mutex_);
    BF_CHECK(!finish_) << "two ends";
    finish_ = std::move(event);
    changed_.notify_all();
  }

  // The end, once it has come.
  const FinishEvent& wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return finish_.has_value(); });
    return *finish_;
  }
  void wait_for_tokens(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return events_.size() >= count || finish_; });
  }
  // The engine stands once this many tokens have come, until another number is given or release() is called:
  // what a test does then meets a request in the middle of its text, however slow the test's thread is.
  void hold_at(size_t count) {
    std::lock_guard lock(mutex_);
    stand_ = count;
    changed_.notify_all();
  }
  void release() { hold_at(SIZE_MAX); }
  size_t token_count() const {
    std::lock_guard lock(mutex_);
    return events_.size();
  }
  bool finished() const {
    std::lock_guard lock(mutex_);
    return finish_.has_value();
  }
  // After the end.
  const std::vector<TokenEvent>& events() const { return events_; }
  const std::vector<TokenEvent>& prompt() const { return prompt_; }
  std::vector<int32_t> tokens() const {
    std::vector<int32_t> ids;
    for (const TokenEvent& event : events_) ids.push_back(event.token);
    return ids;
  }
  std::string text() const {
    std::string text;
    for (const TokenEvent& event : events_) text += event.text;
    return text + finish_->text;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<TokenEvent> events_, prompt_;
  std::optional<FinishEvent> finish_;
  size_t stand_ = SIZE_MAX;
};

}  // namespace butterfly::runtime::testing
