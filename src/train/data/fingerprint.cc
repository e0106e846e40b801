#include "train/data/fingerprint.h"

#include <algorithm>

#include "base/sha256.h"

namespace butterfly::train {
namespace {

constexpr uint64_t kMaxBytes = 64 << 20;

}  // namespace

std::string fingerprint(const Dataset& data) {
  Batch batch;
  batch.resize(1, data.shape());
  const auto ids = std::as_bytes(std::span(batch.ids)), values = std::as_bytes(std::span(batch.values)),
             targets = std::as_bytes(std::span(batch.targets));
  const uint64_t item_bytes = std::max<uint64_t>(1, ids.size() + values.size() + targets.size());
  const uint64_t count = std::min(data.size(), std::max<uint64_t>(2, kMaxBytes / item_bytes));
  std::string hashes;
  for (uint64_t i = 0; i < count; ++i) {
    // The first and the last are always among them.
    const uint64_t item =
        count < 2
            ? 0
            : static_cast<uint64_t>(static_cast<unsigned __int128>(i) * (data.size() - 1) / (count - 1));
    data.read(item, batch.row(0));
    for (const auto bytes : {ids, values, targets}) {
      const Sha256 hash = sha256(bytes);
      hashes.append(reinterpret_cast<const char*>(hash.data()), hash.size());
    }
    if (hashes.size() > 4096) hashes = sha256_hex(hashes);
  }
  return sha256_hex(hashes).substr(0, 16);
}

}  // namespace butterfly::train
