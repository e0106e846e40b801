#include "cluster/training/deal.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace butterfly::cluster {
namespace {

// Units of equal work, one by one to whoever would finish it first: the shortest time that whole units have.
std::vector<size_t> deal_units(size_t units, std::span<const double> speeds) {
  std::vector<size_t> counts(speeds.size());
  for (size_t unit = 0; unit < units; ++unit) {
    size_t best = 0;
    for (size_t i = 1; i < speeds.size(); ++i)
      if (static_cast<double>(counts[i] + 1) / speeds[i] <
          static_cast<double>(counts[best] + 1) / speeds[best])
        best = i;
    ++counts[best];
  }
  return counts;
}

double time_of(const std::vector<LeafRange>& ranges, std::span<const double> speeds) {
  double longest = 0;
  for (size_t i = 0; i < ranges.size(); ++i)
    longest = std::max(longest, static_cast<double>(ranges[i].size()) / speeds[i]);
  return longest;
}

std::vector<LeafRange> ranges_of(size_t leaves, size_t unit, std::span<const double> speeds) {
  std::vector<LeafRange> ranges;
  size_t at = 0;
  for (const size_t count : deal_units((leaves + unit - 1) / unit, speeds)) {
    const size_t end = std::min(leaves, at + count * unit);
    ranges.push_back({at, end});
    at = end;
  }
  return ranges;
}

}  // namespace

std::vector<LeafRange> deal_leaves(size_t leaves, std::span<const double> speeds) {
  BF_CHECK(!speeds.empty()) << "nobody to deal to";
  constexpr double kSlack = 1.05;
  std::vector<LeafRange> best = ranges_of(leaves, 1, speeds);
  const double bound = kSlack * time_of(best, speeds);
  for (size_t unit = 2; unit < 2 * leaves; unit *= 2) {
    std::vector<LeafRange> coarser = ranges_of(leaves, unit, speeds);
    if (time_of(coarser, speeds) > bound) break;
    best = std::move(coarser);
  }
  return best;
}

std::vector<size_t> cut_blocks(std::span<const uint64_t> block_bytes, std::span<const double> bandwidths,
                               uint64_t bytes_min) {
  BF_CHECK(!bandwidths.empty() && bytes_min > 0) << "no owner";
  const uint64_t total = std::accumulate(block_bytes.begin(), block_bytes.end(), uint64_t{0});
  const size_t owners =
      std::clamp<size_t>(static_cast<size_t>(total / bytes_min), 1,
                         std::min(bandwidths.size(), std::max<size_t>(1, block_bytes.size())));
  const double all =
      std::accumulate(bandwidths.begin(), bandwidths.begin() + static_cast<ptrdiff_t>(owners), 0.0);
  std::vector<size_t> ends;
  size_t at = 0;
  double share = 0;
  uint64_t bytes = 0;
  for (size_t i = 0; i < bandwidths.size(); ++i) {
    share += i < owners ? bandwidths[i] : 0;
    const double until =
        i + 1 >= owners ? static_cast<double>(total) : static_cast<double>(total) * share / all;
    // A block belongs to the owner in whose share its middle lies.
    while (
        at < block_bytes.size() &&
        (i + 1 >= owners || static_cast<double>(bytes) + static_cast<double>(block_bytes[at]) / 2 <= until))
      bytes += block_bytes[at++];
    if (i == 0 && at == 0 && !block_bytes.empty()) bytes += block_bytes[at++];
    ends.push_back(at);
  }
  return ends;
}

}  // namespace butterfly::cluster
