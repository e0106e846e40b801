// Requests that may be what ends the nodes that compute them: who was under way when a chain was lost, again
// and again at the same place.
#pragma once
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "runtime/engine/request.h"

namespace butterfly::runtime {

// A machine that is lost takes the steps of many requests with it, and nothing is wrong with any of them. So
// a loss counts against a request only until it gets past the place where it was lost: whoever does is
// innocent, however often machines fail. One that was lost twice without getting past is a suspect and is
// computed alone, suspects one after the other, until it is past or is lost once more. What is lost alone is
// its own doing, and is given up. So a request costs its cluster at most kLossesMax nodes, and others wait
// for at most as many recoveries.
//
// Of one thread: the engine's.
class Suspects {
 public:
  // The first loss is a machine's until something says otherwise. The second, at the same place, might still
  // be chance; the third, alone, is not. Each more costs another node.
  static constexpr size_t kLossesMax = 3;

  // A request in the steps under way, and its last position in them.
  struct UnderWay {
    RequestId id{};
    size_t last = 0;
  };
  // The chain was lost with these under way; an id may come several times. Who is given up: nobody, or the
  // only one.
  std::optional<RequestId> lost(std::span<const UnderWay> requests);
  // Position `last` of the request has been computed. True: it was a suspect, and is none any more.
  bool passed(RequestId id, size_t last);
  // The request is over. True as above.
  bool forget(RequestId id);

  // Who is to be computed alone now; nothing: all together.
  std::optional<RequestId> alone() const;

 private:
  struct Losses {
    size_t count = 0;
    size_t at = 0;  // its last position under way, the first time
    bool suspect() const { return count + 1 >= kLossesMax; }
  };
  std::map<RequestId, Losses> losses_;
};

}  // namespace butterfly::runtime
