// Which part of each layer a member of a stage computes. Plain data: what a unit is, runtime knows.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace butterfly::cluster {

// What of a layer can be split over the members of a stage.
enum class ShareKind : uint8_t {
  kHeads,  // of attention, in groups that have a key/value head in common; the columns of its output product
           // too
  kColumns,     // of the feed-forward part: outputs of gate and up, inputs of down
  kExperts,     // whole ones
  kVocabulary,  // rows of the embedding and of the head
};
inline constexpr size_t kShareKinds = 4;
std::string_view share_kind_name(ShareKind kind);  // "heads", "columns"

// Units [begin, end) of `units`. A product that is summed over several members has the logical shards of the
// numerics as its units (at most eight, see DESIGN section 1), so that a split is always between two of them
// and the sum has the bits of one machine. Empty: a member may own no part.
struct ShareRange {
  uint32_t begin = 0, end = 1;
  uint32_t units = 1;

  bool whole() const { return begin == 0 && end == units; }
  bool empty() const { return begin == end; }
  bool operator==(const ShareRange&) const = default;
};

// By kind. Everything, unless it says otherwise.
struct Share {
  std::array<ShareRange, kShareKinds> ranges = {};

  ShareRange& of(ShareKind kind) { return ranges[static_cast<size_t>(kind)]; }
  const ShareRange& of(ShareKind kind) const { return ranges[static_cast<size_t>(kind)]; }
  bool whole() const;
  bool operator==(const Share&) const = default;
};

inline constexpr uint32_t kShareUnitsMax = 1 << 20;

// Empty, or in words why these do not have every unit of every kind exactly once.
std::string why_not_covered(std::span<const Share> shares);

// For people: "everything", "heads 0-4 of 8, columns 0-2 of 8".
std::string to_string(const Share& share);

}  // namespace butterfly::cluster
