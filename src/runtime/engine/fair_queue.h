// Requests that wait, in the order in which they get their turn.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "base/function_ref.h"
#include "runtime/engine/request.h"

namespace butterfly::runtime {

// Clients in the background come after the others. Among equals turns go to the client that has been served
// the fewest tokens; within a client to the request that came first. A client that was away starts level with
// the least served one: it has no claim to what it did not ask for. (Sheng et al., "Fairness in serving large
// language models", OSDI 2024.) Not thread-safe.
class FairQueue {
 public:
  enum class Decision {
    kTake,  // it leaves the queue; go on with the next turn
    kSkip,  // it stays, others may go before it
    kStop,  // it stays, and so does everybody behind it
  };

  void push_back(uint64_t client, RequestId id, size_t tokens);
  void push_front(uint64_t client, RequestId id, size_t tokens);  // it had its turn and lost its place
  bool remove(uint64_t client, RequestId id);

  // Offers requests in order of their turns until none is left or the answer is kStop.
  void offer(FunctionRef<Decision(RequestId)> take);
  // `tokens` were computed for the client. Between calls of join() and leave() its count is kept.
  void charge(uint64_t client, size_t tokens);
  void join(uint64_t client, bool background = false);
  void leave(uint64_t client);

  size_t size() const { return size_; }
  size_t tokens() const { return tokens_; }

 private:
  struct Entry {
    RequestId id;
    size_t tokens;
  };
  struct Client {
    std::deque<Entry> waiting;
    uint64_t served = 0;
    size_t requests = 0;  // waiting or running
    bool background = false;
  };
  std::map<uint64_t, Client> clients_;
  size_t size_ = 0;
  size_t tokens_ = 0;
};

}  // namespace butterfly::runtime
