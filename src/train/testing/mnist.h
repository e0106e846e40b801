// For tests and benchmarks: MNIST in memory, cut into batches in a seeded order.
#pragma once
#include <algorithm>
#include <filesystem>
#include <numeric>
#include <vector>

#include "base/rng.h"
#include "train/data/idx_dataset.h"
#include "train/network.h"

namespace butterfly::train::testing {

struct Mnist {
  std::vector<float> pixels;
  std::vector<int32_t> labels;

  // `part`: "train" or "t10k".
  Mnist(const std::filesystem::path& folder, const std::string& part) {
    const IdxDataset data(folder / (part + "-images-idx3-ubyte.gz"),
                          folder / (part + "-labels-idx1-ubyte.gz"),
                          {.mean = {0.1307f}, .deviation = {0.3081f}});
    pixels.resize(data.size() * 784);
    labels.resize(data.size());
    for (size_t i = 0; i < data.size(); ++i)
      data.read(i, {{}, std::span(pixels).subspan(i * 784, 784), std::span(labels).subspan(i, 1)});
  }

  size_t size() const { return labels.size(); }
  // Items in an order that is a function of (seed, epoch).
  void shuffle(uint64_t seed, uint64_t epoch) {
    for (size_t i = size() - 1; i > 0; --i) {
      const size_t j = random_u64(seed, epoch, i) % (i + 1);
      std::swap(labels[i], labels[j]);
      std::swap_ranges(pixels.begin() + static_cast<ptrdiff_t>(i * 784),
                       pixels.begin() + static_cast<ptrdiff_t>((i + 1) * 784),
                       pixels.begin() + static_cast<ptrdiff_t>(j * 784));
    }
  }
  MicroBatch batch(size_t first, size_t count) const {
    return {.tokens = {},
            .pixels = std::span(pixels).subspan(first * 784, count * 784),
            .targets = std::span(labels).subspan(first, count)};
  }
};

}  // namespace butterfly::train::testing
