// The asking side of enrolment.h, over the network: for joining and for renewal.
#pragma once
#include <string>

#include "base/clock.h"
#include "cluster/identity/enrolment.h"

namespace butterfly::cluster {

// Connects to "host:port", believes it only when its chain ends in the certificate with `authority_hash` and
// its certificate does not name another node as the coordinator, asks, and returns a reply without refusal.
// Throws Error: kInvalidArgument with the refusal, kTimeout, kPeerLost, kCorrupt.
EnrolmentReply ask_authority(const std::string& address, const std::string& authority_hash,
                             const std::string& secret, const CertificateRequest& request, Duration timeout);

}  // namespace butterfly::cluster
