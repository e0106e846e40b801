// Numbers that order what happens in a cluster: who coordinates, and which plan holds.
#pragma once
#include <cstdint>

namespace butterfly::cluster {

// Something that a cluster runs: a model that is served, a training run. Small numbers, given by whoever
// starts them; smaller ones are planned first. 0: none.
using JobId = uint32_t;
inline constexpr JobId kFirstJob = 1;
inline constexpr JobId kJobsMax = 64;  // the largest number
// Numbers from here on are training runs. What is served goes before them: it is planned first, and takes
// memory that they have.
inline constexpr JobId kFirstTraining = 33;
constexpr bool is_training(JobId job) { return job >= kFirstTraining; }

// One life of the coordinator's process. A later life has a larger number: next_incarnation().
using Incarnation = uint64_t;

// One attempt to place a job. All jobs draw from one row of numbers, which only grows, over restarts of the
// coordinator too: a message of an old plan is known by this number alone. 0: none.
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
