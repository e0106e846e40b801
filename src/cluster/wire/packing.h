// Lossless compression of arrays on their way over a link.
//
// Bytes of equal place in their elements go together first (planes): signs and exponents of floats are much
// alike, the rest is noise that no code makes shorter. Each plane is compressed by itself, or left as it is
// where that is shorter.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "tensor/pooled_array.h"

namespace butterfly::cluster {

// kLz4: blocks, whose length the receiver knows; kLz4Frame: LZ4's frames, with a check value of their own.
enum class Packing : uint8_t { kNone, kLz4, kZstd, kLz4Frame };
inline constexpr Packing kPackings[] = {Packing::kLz4, Packing::kZstd, Packing::kLz4Frame};

std::string_view packing_name(Packing packing);

inline constexpr size_t kPlanesMax = 8;

// What the code of `bytes` bytes takes at most.
size_t packed_bytes_max(size_t bytes, size_t planes);

// `pieces` one behind the other, as elements of `planes` bytes each (1 to kPlanesMax); their code is appended
// to nothing: `out` holds it alone. Not kNone. Any thread.
void pack(Packing packing, size_t planes, std::span<const std::span<const std::byte>> pieces,
          PooledArray<std::byte>& out);

// Fills the pieces. kCorrupt where the code is not of exactly so many bytes.
Status unpack(Packing packing, size_t planes, std::span<const std::byte> code,
              std::span<const std::span<std::byte>> pieces);

}  // namespace butterfly::cluster
