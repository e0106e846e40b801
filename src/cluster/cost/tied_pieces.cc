#include "cluster/cost/tied_pieces.h"

#include <fmt/format.h>

#include <algorithm>

namespace butterfly::cluster {
namespace {

void join(Piece& to, const Piece& next) {
  const size_t first_words = to.name.find(" to ");
  to.name = fmt::format(
      "{} to {}", first_words == std::string::npos ? to.name : to.name.substr(0, first_words), next.name);
  to.decode += next.decode;
  to.prefill += next.prefill;
  to.weight_bytes += next.weight_bytes;
  to.kv_bytes += next.kv_bytes;
  to.decode_out_bytes = next.decode_out_bytes;
  to.prefill_out_bytes = next.prefill_out_bytes;
  to.exchanges += next.exchanges;
  to.decode_is_long |= next.decode_is_long;
  to.decode_sum_bytes += next.decode_sum_bytes;
  to.prefill_sum_bytes += next.prefill_sum_bytes;
  to.decode_spread_bytes += next.decode_spread_bytes;
  to.prefill_spread_bytes += next.prefill_spread_bytes;
  to.decode_gather_bytes += next.decode_gather_bytes;
  to.prefill_gather_bytes += next.prefill_gather_bytes;
  to.whole_bytes += next.whole_bytes;
  to.decode_whole += next.decode_whole;
  to.prefill_whole += next.prefill_whole;
}

}  // namespace

TiedPieces::TiedPieces(const PieceList& list) : pieces_(list.pieces.size()), joined_(list) {
  joined_.pieces.clear();
  for (size_t i = 0; i < list.pieces.size(); ++i) {
    if (list.pieces[i].tied && i > 0) {
      join(joined_.pieces.back(), list.pieces[i]);
      continue;
    }
    begins_.push_back(i);
    joined_.pieces.push_back(list.pieces[i]);
  }
  begins_.push_back(pieces_);
}

Plan TiedPieces::apart(Plan plan) const {
  for (Stage& stage : plan.stages) {
    stage.begin = begins_[stage.begin];
    stage.end = begins_[stage.end];
  }
  return plan;
}

std::optional<Plan> TiedPieces::together(Plan plan, std::string& why_not) const {
  for (Stage& stage : plan.stages)
    for (size_t* cut : {&stage.begin, &stage.end}) {
      const auto found = std::ranges::lower_bound(begins_, *cut);
      if (found == begins_.end() || *found != *cut) {
        why_not = fmt::format("a stage is cut at piece {}, inside of {}, which must be on one node", *cut,
                              found == begins_.begin() || found == begins_.end()
                                  ? "nothing"
                                  : joined_.pieces[static_cast<size_t>(found - begins_.begin()) - 1].name);
        return std::nullopt;
      }
      *cut = static_cast<size_t>(found - begins_.begin());
    }
  return plan;
}

}  // namespace butterfly::cluster
