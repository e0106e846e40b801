// One text from one prompt, for a caller that waits for it.
#pragma once
#include <functional>
#include <string_view>
#include <vector>

#include "runtime/engine/engine.h"

namespace butterfly::runtime {

struct Completion {
  std::vector<int32_t> tokens;  // generated, without the prompt; includes the end token
  FinishEvent finish;           // its text has gone to the sink already

  Duration prompt_time() const { return tokens.empty() ? finish.timings.total : finish.timings.first_token; }
  Duration eval_time() const {
    return finish.timings.total - prompt_time();
  }  // for the tokens after the first
};

// Called with whole characters as they become certain, and with nothing now and then while they are waited
// for; returns false to stop.
using TextSink = std::function<bool(std::string_view text)>;

// Blocks until the text is over; a sink that returned false ends it with kCancelled. `sink` runs on this
// thread, and what it throws comes through, once the engine has let go of the request. Throws Error: what the
// engine refuses (see Engine::submit()), and the status of a request that ended with kError.
Completion complete(Engine& engine, EngineRequest request, const TextSink& sink);

}  // namespace butterfly::runtime
