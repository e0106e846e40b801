// One request as the scheduler sees it: its token log, and where its positions are in the cache.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/engine/drafter.h"
#include "runtime/engine/page_pool.h"
#include "runtime/engine/request.h"
#include "runtime/engine/step.h"

namespace butterfly::runtime {

// What the scheduler must know of a request.
struct Submission {
  RequestId id{};
  std::vector<int32_t> prompt;
  bool generates = true;                       // false: it ends when its prompt is read
  RowOutput prompt_output = RowOutput::kNone;  // of every prompt row,
  bool last_output_only = false;               // or of the last one only
  uint16_t candidates = 0;                     // StepRow::candidates of rows that choose
  size_t tokens_max = SIZE_MAX;                // to generate
  uint64_t client = 0;
  uint32_t adapter = 0;  // StepRow::adapter
  bool background = false;
  std::optional<TimePoint> deadline;
  bool reuse_prefix = true;
  bool speculate = true;
  // Ends of messages within the prompt: positions from which a later text may go on in another way.
  std::vector<size_t> marks = {};
};

struct Sequence {
  Submission request;           // without the prompt
  std::vector<int32_t> tokens;  // the log: prompt, then what was chosen
  size_t prompt_size = 0;
  PagePool::NodeId root = PagePool::kRoot;  // where the published pages begin that it may use
  size_t outputs_from = 0;  // rows before it need not answer any more, should they be computed again
  size_t cached_tokens = 0;
  std::vector<size_t> snapshots;  // positions at which the state of recurrent layers is kept, in order
  bool began = false;
  bool restoring = false;      // pages of its beginning come from elsewhere: it is not run before
  size_t computed_before = 0;  // positions that an earlier chain had: computed again if they are
  bool choice_pending =
      false;        // its next token is being chosen outside: until then nothing is left to compute
  size_t held = 0;  // steps it has waited after its first token for others that came with it

  // While running.
  std::optional<uint32_t> slot;  // its number at the stages
  size_t computed = 0;           // positions in the cache
  size_t planned = 0;            // with those of steps under way; guesses are not counted
  std::vector<uint32_t> pages;
  std::vector<uint32_t> window_pages, state_pages;  // by block, kNoPage where it has none
  // Positions in the state of recurrent layers: right guesses come into it with the next step. `state_end`
  // counts steps under way.
  size_t state_seen = 0, state_end = 0;
  size_t states_from = 0;               // blocks before it have no state page
  std::vector<PagePool::NodeId> nodes;  // of its first pages, as far as they are published
  size_t in_flight = 0;                 // steps under way with rows of it: several while a prompt is read
  std::vector<int32_t> draft;           // of the step under way that chooses its next token
  // What steps under way take for granted behind the log: that draft, then the rows of steps that began
  // before the tokens in front of them were chosen.
  std::vector<int32_t> assumed;
  size_t ahead = 0;  // such steps
  Drafter drafter;
  std::vector<int32_t> predicted;  // by the model, behind the log; used by the next step or not at all
  double predict_cost = 0;         // of the predictions in `draft`, in tokens

  std::vector<uint32_t>& side(graph::PageKind kind) {
    return kind == graph::PageKind::kWindow ? window_pages : state_pages;
  }
  const std::vector<uint32_t>& side(graph::PageKind kind) const {
    return kind == graph::PageKind::kWindow ? window_pages : state_pages;
  }
  RequestId id() const { return request.id; }
  size_t remaining() const { return tokens.size() - planned; }  // rows to plan
  // Continues a text, one position at a time; otherwise it reads.
  bool is_stream() const { return request.generates && remaining() == 1; }
  size_t generated() const { return tokens.size() - prompt_size; }
};

}  // namespace butterfly::runtime
