// Programs of tests/neon: built for 64-bit Arm with the cross compiler, run under qemu, and their
// fingerprints read.
#pragma once
#include <map>
#include <string>

namespace butterfly::kernels::testing {

// Fingerprints by name, from lines "target hash name".
using Fingerprints = std::map<std::string, std::string>;

// "0123456789abcdef"
std::string fingerprint_text(unsigned long long value);

// Why programs for NEON cannot be built or run here, or "".
std::string neon_why_not();

// What one program printed for NEON. An error (and its output) is in `error`; then `found` is empty.
struct NeonRun {
  Fingerprints found;
  std::string error;
};
NeonRun run_for_neon(const std::string& program);

}  // namespace butterfly::kernels::testing
