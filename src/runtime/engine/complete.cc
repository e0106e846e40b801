#include "runtime/engine/complete.h"

#include <condition_variable>
#include <mutex>
#include <optional>

#include "base/error.h"

namespace butterfly::runtime {
namespace {

constexpr Duration kLookAgain = std::chrono::milliseconds(50);  // whether it is still wanted

// Hands events from the engine's thread to the one that waits.
class Handover final : public EventSink {
 public:
  void on_tokens(RequestId, std::vector<TokenEvent> events) override {
    const std::lock_guard lock(mutex_);
    for (TokenEvent& event : events) {
      text_ += event.text;
      tokens_.push_back(event.token);
    }
    changed_.notify_one();
  }
  void on_finish(RequestId, FinishEvent event) override {
    const std::lock_guard lock(mutex_);
    text_ += event.text;
    finish_ = std::move(event);
    changed_.notify_one();
  }

  // The text that came since the last call: at once, or after waiting a little for it. True at the end.
  bool next(std::string& text) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kLookAgain, [&] { return finish_ || !text_.empty(); });
    text.clear();
    text.swap(text_);
    return finish_.has_value();
  }
  // After the end.
  Completion take() { return {std::move(tokens_), std::move(*finish_)}; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
  std::vector<int32_t> tokens_;
  std::optional<FinishEvent> finish_;
};

}  // namespace

Completion complete(Engine& engine, EngineRequest request, const TextSink& sink) {
  const auto events = std::make_shared<Handover>();
  const RequestId id = engine.submit(std::move(request), events).or_throw();
  std::string text;
  std::exception_ptr thrown;
  for (bool ended = false, wanted = true; !ended;) {
    ended = events->next(text);
    if (!wanted) continue;
    try {
      wanted = sink(text);
    } catch (...) {
      thrown = std::current_exception();
      wanted = false;
    }
    if (!wanted) engine.cancel(id);
  }
  if (thrown) std::rethrow_exception(thrown);
  Completion done = events->take();
  if (done.finish.reason == FinishReason::kError)
    throw Error(done.finish.status.code(), done.finish.status.text());
  return done;
}

}  // namespace butterfly::runtime
