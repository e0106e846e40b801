// Arithmetic with no memory traffic: the compute peaks of one core under the current target.
#pragma once
#include <cstdint>

namespace butterfly::kernels {

// Runs `rounds` rounds of independent f32 FMAs; returns the floating-point operations done (2 per FMA and
// lane).
uint64_t run_fma(uint64_t rounds);

// Runs `rounds` rounds of the target's best int8 multiply-add; returns the operations done (2 per product).
uint64_t run_int8(uint64_t rounds);
// The instruction it uses: "tdpbssd", "vpdpbusd", "maddubs + madd", "smull + sadalp", "scalar".
const char* int8_instruction();

}  // namespace butterfly::kernels
