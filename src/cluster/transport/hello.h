// The first message on every link, both ways: what the link is for, and whether the two programs may work
// together.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/transport/link.h"

namespace butterfly::cluster {

enum class LinkPurpose : uint8_t {
  kControl = 1,  // membership, plans, health: one per pair of nodes
  kStage = 2,    // tokens, activations and results between stages
  kWeights = 3,  // chunks of model files
  kProbe = 4,    // measuring the link itself
  kTrain = 5,    // a training job: from its leader to a member, or between members
  kStatus = 6,   // a member asks its coordinator for the state of the cluster
  kLead = 7,     // who leads: votes, and copies of the journal
  kCache = 8,    // pages of a cache whose layers moved
};

// Whether a link of this purpose carries what is large or urgent: transports that have a faster way take it.
// What measures links goes the same way.
bool carries_rows(LinkPurpose purpose);

struct Hello {
  LinkPurpose purpose = LinkPurpose::kControl;
  uint64_t incarnation = 0;  // of the coordinator: a new number at each of its starts; 0 when not known yet
  // Which of several links of one purpose: a stage's are of one epoch of one job. 0: of none.
  uint32_t job = 0;
  uint64_t epoch = 0;
  std::string version{};  // of the program, for people
  std::string address{};  // where the sender listens, "host:port"; may be empty
  // Of an MPI job that the sender is a rank of; 0: of none. Who opens the link chooses the channel.
  uint64_t mpi_world = 0;
  uint32_t mpi_rank = 0, mpi_channel = 0;

  uint16_t protocol = kProtocol;
  uint32_t numerics_id = kNumerics;

  static constexpr uint16_t kProtocol = 9;  // of frames and messages
  static const uint32_t kNumerics;          // kernels::kNumericsId

  std::vector<std::byte> encode() const;
  static Result<Hello> decode(std::span<const std::byte> body);
};

// Sends `mine` and returns the peer's. Both sides send first, so this cannot wait for itself. kUnsupported
// when protocol or numerics id differ: then the link is closed, and both sides know why, for each has the
// other's numbers. Other errors also close the link.
Result<Hello> exchange_hello(Link& link, const Hello& mine, Duration timeout);

// Why two programs cannot work together, in words; empty when they can.
std::string why_not_together(const Hello& mine, const Hello& theirs, const std::string& peer_name);

}  // namespace butterfly::cluster
