// Capabilities on disk: measured once, used until the machine or the program changes.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cluster/identity/state_folder.h"
#include "cluster/node/capabilities.h"

namespace butterfly::cluster {

inline constexpr int64_t kCapabilityLife_s = int64_t{30} * 24 * 3600;

std::string to_json(const Capabilities& capabilities);
Result<Capabilities> parse_capabilities(std::string_view json);  // kCorrupt

// What must be as it was for a measurement to hold.
struct MeasuredFor {
  std::string program, cpu, target;
  uint32_t threads = 0;
  uint64_t ram_limit_bytes = 0;
  double cpu_quota =
      0;  // CPUs worth of time, where the control group gives less than the threads want; else 0
};
MeasuredFor this_machine(const std::string& program, size_t threads);

// Of the file in a state folder: one per number of threads and quota, so that nodes of one machine do not
// fight over it.
std::string capability_file_name(const MeasuredFor& now);

// In words why `kept` must be measured again at `unix_s`; empty: it holds.
std::string why_stale(const Capabilities& kept, const MeasuredFor& now, int64_t unix_s);

// The capabilities of `folder` if they hold, else measured and kept. `fresh`: measure in any case. A file
// that cannot be read is measured again; one that cannot be written is logged.
Capabilities load_or_measure(const StateFolder& folder, const MeasuredFor& now, int64_t unix_s, bool fresh,
                             const std::function<Capabilities()>& measure);

}  // namespace butterfly::cluster
