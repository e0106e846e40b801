// What one node asks another about a model's files. The answer's length is known to the one who asks.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "cluster/transport/link.h"
#include "cluster/weights/digest.h"

namespace butterfly::cluster {

// All answers are kWeights messages that repeat the request's number in `step`. An empty body says: not here.
struct WeightRequest {
  enum class Kind : uint8_t {
    kManifest = 1,  // answer: Manifest::to_bytes(), whose hash is the id
    kHave = 2,      // one bit for each chunk, the first in the lowest bit of the first byte
    kChunk = 3,     // `bytes` bytes of the chunk from `offset` on
  };
  Kind kind = Kind::kManifest;
  Digest model{};
  uint32_t chunk = 0;
  // Of the chunk, at most kPieceBytesMax: what moves at once is small, so that a slow link is seen to move.
  uint32_t offset = 0, bytes = 0;

  static constexpr uint32_t kPieceBytesMax = 1 << 20;
  static constexpr size_t kBytes = 1 + 32 + 4 + 4 + 4;
  std::vector<std::byte> to_bytes() const;
  static Result<WeightRequest> parse(std::span<const std::byte> body);
};

Status send_request(Link& link, const WeightRequest& request, uint64_t number, Duration timeout);

}  // namespace butterfly::cluster
