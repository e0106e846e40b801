// One step of the engine as a message: what to place in the cache, what to compute, what to answer.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "graph/kv_step.h"

namespace butterfly::runtime {

// Where a text's positions are kept. Applied in order, before the rows. Two texts that share a page have it
// placed in both; who may write where is the sender's business, and rows only ever write positions that no
// other text holds.
struct KvCommand {
  enum class Kind : uint8_t {
    kForget,  // sequence `sequence` is empty
    kPlace,   // its positions from block * page size on are in page `page`
  };
  Kind kind;
  uint32_t sequence;
  uint32_t block = 0;
  uint32_t page = 0;
  // Pages of each kind have numbers of their own. A state page holds the state behind the last position of
  // the block that was computed; a block without one leaves no state behind.
  graph::PageKind pages = graph::PageKind::kFull;
};

enum class RowOutput : uint8_t {
  kNone,
  kLogits,  // [vocab]
  kHidden,  // [dim]: what the head reads, after the last norm
};

// A token at a position of a sequence. Rows of one sequence stand together, in order of position, those that
// are only guessed last: the next step goes on behind the right ones.
struct StepRow {
  int32_t token;
  uint32_t sequence;
  uint32_t position;
  RowOutput output;
  bool guess = false;
  // Of kLogits: the first so many, in order of their size, are enough to choose from, and others may be
  // -infinity; 0: all are wanted. Spares members of a group that share the head most of what they send.
  uint16_t candidates = 0;
  // AdapterTable's number of what is added to the model for this text; 0: nothing. The same for all rows of a
  // sequence; rows with the same adapter stand together where that can be.
  uint32_t adapter = 0;
};
inline constexpr uint16_t kCandidatesMax = 1024;  // more are not worth picking out

// Layers [begin, end) of the model.
struct LayerSpan {
  uint32_t begin = 0, end = 0;
  bool empty() const { return begin == end; }
  friend bool operator==(const LayerSpan&, const LayerSpan&) = default;
};

// Plain values only: no pointer and no size that the receiver does not know already.
struct StepRequest {
  uint64_t epoch = 0;  // of the placement of stages; a stage drops what is older than its own
  uint64_t step = 0;   // counts up within the epoch
  std::vector<KvCommand> commands;
  std::vector<StepRow> rows;
  // Not empty: rows that other layers have seen already pass these only, from the tokens (layer 0) or from
  // rows that were kept in front of `begin`, and nothing is answered.
  LayerSpan fill = {};
};

// How a text probably goes on behind `token`, which was chosen and stands at `position`, the first that is
// not computed yet; asked between steps of a chain whose model predicts. Positions up to that of the last
// token but one have pages.
struct DraftAsk {
  uint32_t sequence;
  uint32_t position;
  int32_t token;
  uint32_t count;  // tokens, at most
};
struct DraftRequest {
  uint64_t epoch = 0;
  std::vector<KvCommand> commands;  // applied first, as those of a step
  std::vector<DraftAsk> asks;       // of each sequence at most one
};

// The rows' outputs in the order of the rows. Borrowed from the chain until its next receive().
struct StepResult {
  uint64_t epoch = 0;
  uint64_t step = 0;
  Status status;
  std::span<const float> logits;  // [rows with kLogits, vocab]
  std::span<const float> hidden;  // [rows with kHidden, dim]
};

}  // namespace butterfly::runtime
