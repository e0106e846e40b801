// The number of a coordinator's life, kept on disk so that it grows even where the clock does not.
#pragma once
#include "cluster/identity/state_folder.h"
#include "cluster/member/epoch.h"

namespace butterfly::cluster {

// The largest so far; 0: none. Throws Error kCorrupt.
Incarnation last_incarnation(const StateFolder& folder);

// `unix_ms`, or one more than the last number in `folder`, whichever is larger: small boards start in 1970
// and learn the time later. The new number is on disk when this returns. Throws Error kIo, kCorrupt.
Incarnation next_incarnation(const StateFolder& folder, int64_t unix_ms);

}  // namespace butterfly::cluster
