// Layers have moved to other nodes: is what they held sent, or computed again?
#pragma once
#include <span>
#include <string>

#include "base/clock.h"
#include "runtime/engine/cache_report.h"

namespace butterfly::runtime {

struct MoveChoice {
  bool offered = false;     // something can be sent at all
  bool send = false;        // and that is cheaper
  uint64_t bytes = 0;       // of it
  double send_s = 0;        // predicted: to send it,
  double rest_s = 0;        // then to compute what nobody has,
  double read_s = 0;        // or to compute all
  uint64_t row_layers = 0;  // positions times layers that would be computed if nothing was sent
  size_t rows = 0;          // positions of texts that run
};

// `row_layer_s`: what one row takes in one layer when texts are read, as measured; 0: not known, then a
// figure of small machines is used. Stages compute beside each other, so the one with most to do counts;
// transfers are added up, for they may share a link.
MoveChoice choose_move(const CacheReport& report, std::span<const PageClaim> claims, double row_layer_s);

// How long sending may take before the rest is computed: a second, and twice what was predicted or half of
// what it saves. A machine that is busy sends slower than was measured, and computes slower too.
Duration move_limit(const MoveChoice& choice);
// The claims that are worth sending.
std::vector<PageClaim> claims_in_use(std::span<const PageClaim> claims);
// What came, by what is left to be had.
PageMove outcome_of(const MoveChoice& choice, const CacheReport& before, const CacheReport& after,
                    std::span<const PageClaim> claims);
// For the log.
std::string to_string(const MoveChoice& choice);

}  // namespace butterfly::runtime
