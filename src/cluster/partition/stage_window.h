// How far a stage can reach: limits of memory and time, and the cheapest start for every end.
#pragma once
#include <vector>

#include "cluster/cost/problem.h"

namespace butterfly::cluster {

// For every first piece the end of the longest stage that fits the unit and takes at most cap_s. Never falls,
// because bytes and seconds are not negative.
inline std::vector<uint32_t> stage_reach(const Problem& problem, const Unit& unit, double cap_s) {
  const size_t pieces = problem.pieces();
  std::vector<uint32_t> reach(pieces);
  size_t end = 0;
  for (size_t begin = 0; begin < pieces; ++begin) {
    end = std::max(end, begin);
    while (end < pieces && problem.fits(unit, begin, end + 1) && unit.seconds(begin, end + 1) <= cap_s) ++end;
    reach[begin] = static_cast<uint32_t>(end);
  }
  return reach;
}

// done[k] = min over starts j < k with reach[j] >= k of start[j] + seconds(j, k), for k in 1..pieces; kNever
// where there is none. A sliding minimum, so each start is looked at twice at most. `queue` is scratch of
// pieces + 1.
inline void close_stage(const Unit& unit, const uint32_t* reach, const double* start, double* done,
                        size_t pieces, uint32_t* queue) {
  const double* sum = unit.time_sum.data();
  size_t head = 0, tail = 0;
  done[0] = kNever;
  for (size_t k = 1; k <= pieces; ++k) {
    const size_t j = k - 1;
    if (start[j] < kNever && reach[j] >= k) {
      const double value = start[j] - sum[j];
      while (tail > head && start[queue[tail - 1]] - sum[queue[tail - 1]] >= value) --tail;
      queue[tail++] = static_cast<uint32_t>(j);
    }
    while (head < tail && reach[queue[head]] < k) ++head;
    done[k] = head < tail ? start[queue[head]] + (sum[k] - sum[queue[head]]) : kNever;
  }
}

}  // namespace butterfly::cluster
