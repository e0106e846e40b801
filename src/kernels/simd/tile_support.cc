#include "kernels/simd/tile_support.h"

#include <asm/prctl.h>
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace butterfly::kernels {
namespace {

bool request_tiles() {
#if defined(BUTTERFLY_EMULATE_TILES)
  return true;  // amx/emulated_tiles.h
#endif
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned kTile = 1u << 24, kInt8 = 1u << 25, kVnni = 1u << 11;
  if ((d & kTile) == 0 || (d & kInt8) == 0 || (c & kVnni) == 0) return false;
  constexpr unsigned long kTileData = 18;
  return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, kTileData) == 0;
}

}  // namespace

bool has_int8_tiles() {
  static const bool answer = request_tiles();
  return answer;
}

}  // namespace butterfly::kernels
