#include "cluster/member/share.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace butterfly::cluster {

std::string_view share_kind_name(ShareKind kind) {
  switch (kind) {
    case ShareKind::kHeads:
      return "heads";
    case ShareKind::kColumns:
      return "columns";
    case ShareKind::kExperts:
      return "experts";
    case ShareKind::kVocabulary:
      return "vocabulary";
  }
  return "unknown";
}

bool Share::whole() const {
  return std::ranges::all_of(ranges, [](const ShareRange& range) { return range.whole(); });
}

std::string why_not_covered(std::span<const Share> shares) {
  if (shares.empty()) return "nobody has a share";
  for (size_t k = 0; k < kShareKinds; ++k) {
    const std::string_view name = share_kind_name(static_cast<ShareKind>(k));
    const uint32_t units = shares.front().ranges[k].units;
    std::vector<ShareRange> parts;
    for (const Share& share : shares) {
      const ShareRange& range = share.ranges[k];
      if (range.units == 0 || range.units > kShareUnitsMax || range.begin > range.end ||
          range.end > range.units)
        return fmt::format("{} {} to {} of {}", name, range.begin, range.end, range.units);
      if (range.units != units)
        return fmt::format("{} are {} units for one member and {} for another", name, units, range.units);
      if (!range.empty()) parts.push_back(range);
    }
    std::ranges::sort(parts, {}, &ShareRange::begin);
    uint32_t next = 0;
    for (const ShareRange& part : parts) {
      if (part.begin != next)
        return fmt::format("{} {}: {} has it", name, std::min(part.begin, next),
                           part.begin < next ? "more than one member" : "nobody");
      next = part.end;
    }
    if (next != units) return fmt::format("{} {}: nobody has it", name, next);
  }
  return {};
}

std::string to_string(const Share& share) {
  std::string words;
  for (size_t k = 0; k < kShareKinds; ++k) {
    const ShareRange& range = share.ranges[k];
    if (!range.whole())
      words += fmt::format("{}{} {}-{} of {}", words.empty() ? "" : ", ",
                           share_kind_name(static_cast<ShareKind>(k)), range.begin, range.end, range.units);
  }
  return words.empty() ? "everything" : words;
}

}  // namespace butterfly::cluster
