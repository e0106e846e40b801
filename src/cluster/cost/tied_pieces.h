// Pieces that no cut may separate (Piece::tied), as one piece each: what searches see of them.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cluster/cost/piece.h"
#include "cluster/cost/plan.h"

namespace butterfly::cluster {

// A list with tied pieces joined, and where its pieces begin in the first list. Immutable.
class TiedPieces {
 public:
  explicit TiedPieces(const PieceList& list);

  bool any() const { return begins_.size() <= pieces_; }
  const PieceList& joined() const { return joined_; }
  // A plan of the joined list, in pieces of the first.
  Plan apart(Plan plan) const;
  // The other way round; or in words which stage begins where no cut may be.
  std::optional<Plan> together(Plan plan, std::string& why_not) const;

 private:
  size_t pieces_;               // of the first list
  std::vector<size_t> begins_;  // of each joined piece, and the end
  PieceList joined_;
};

}  // namespace butterfly::cluster
