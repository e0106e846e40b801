#include "train/data/augment.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/random_stream.h"
#include "base/rng.h"

namespace butterfly::train {

void Augment::apply(uint64_t batch, size_t row, const ImageShape& shape, std::span<float> values) const {
  BF_CHECK(values.size() == shape.values());
  static const uint64_t kStream = random_stream("augment");
  const auto draw = [&](uint64_t what) {
    return random_u64(random_u64(seed, kStream, batch), static_cast<uint64_t>(row), what);
  };
  const bool mirrored = flip && (draw(0) & 1) != 0;
  const auto moved = [&](uint64_t what) {
    return crop == 0 ? 0 : static_cast<int64_t>(draw(what) % (2 * crop + 1)) - static_cast<int64_t>(crop);
  };
  const int64_t down = moved(1), right = moved(2);
  if (!mirrored && down == 0 && right == 0) return;
  const auto height = static_cast<int64_t>(shape.height), width = static_cast<int64_t>(shape.width);
  const std::vector<float> from(values.begin(), values.end());
  for (size_t c = 0; c < shape.channels; ++c) {
    const float* plane = from.data() + c * shape.height * shape.width;
    float* to = values.data() + c * shape.height * shape.width;
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x) {
        const int64_t source = std::clamp<int64_t>(x + right, 0, width - 1);
        to[y * width + x] = plane[std::clamp<int64_t>(y + down, 0, height - 1) * width +
                                  (mirrored ? width - 1 - source : source)];
      }
  }
}

}  // namespace butterfly::train
