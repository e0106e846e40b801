// Numbers that order what happens in a cluster: who coordinates, and which plan holds.
#pragma once
#include <cstdint>

namespace butterfly::cluster {

// One life of the coordinator's process. A later life has a larger number: next_incarnation().
using Incarnation = uint64_t;

// One attempt to place the model. Epochs only grow, over restarts of the coordinator too, so a message of an
// old plan is known by this number alone. 0: none.
using Epoch = uint64_t;

// The epochs of an incarnation start here. There is room for 1024 plans in every millisecond it lives.
constexpr Epoch first_epoch(Incarnation incarnation) { return incarnation << 10; }
// For people: 1 for the first plan of this incarnation.
constexpr uint64_t plan_number(Incarnation incarnation, Epoch epoch) {
  return epoch > first_epoch(incarnation) ? epoch - first_epoch(incarnation) : 0;
}

// A connection, as the shell numbers them. Never used twice. 0: none.
using LinkNumber = uint64_t;

}  // namespace butterfly::cluster
