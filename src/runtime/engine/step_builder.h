// Collects the parts of one step, for the files of the scheduler.
#pragma once
#include <algorithm>
#include <map>
#include <utility>

#include "runtime/engine/scheduler.h"

namespace butterfly::runtime {

// Books are those of the scheduler that makes it; of one plan.
struct Scheduler::Builder {
  size_t rows() const { return plan.request.rows.size(); }

  // Rows for the next `count` positions of the log, and for the draft behind them.
  void add(Sequence& sequence, size_t count) {
    StepPart part{
        .id = sequence.id(), .first_position = sequence.planned, .row_count = 0, .draft = sequence.draft};
    const size_t end = sequence.planned + count;
    part.chooses = sequence.request.generates && end == sequence.tokens.size() && !sequence.choice_pending;
    for (size_t position = sequence.planned; position < end + part.draft.size(); ++position) {
      const bool chooses = part.chooses && position + 1 >= sequence.tokens.size();
      RowOutput output = RowOutput::kNone;
      if (chooses) {
        output = RowOutput::kLogits;
      } else if (position >= sequence.outputs_from && position < sequence.prompt_size) {
        output = sequence.request.prompt_output;
      }
      part.logit_rows += output == RowOutput::kLogits;
      part.hidden_rows += output == RowOutput::kHidden;
      const int32_t token = position < end ? sequence.tokens[position] : part.draft[position - end];
      plan.request.rows.push_back({token, *sequence.slot, static_cast<uint32_t>(position), output,
                                   position >= end, chooses ? sequence.request.candidates : uint16_t{0},
                                   sequence.request.adapter});
    }
    part.row_count = count + part.draft.size();
    adapters[part.id] = sequence.request.adapter;
    under_way.parts.push_back({part.id, part.row_count, part.draft.size(), part.chooses});
    if (part.chooses) sequence.assumed = part.draft;
    under_way.mix.drafts += part.draft.size();
    again_rows += std::max(sequence.planned, std::min(end, sequence.computed_before)) - sequence.planned;
    (sequence.is_stream() ? under_way.mix.streams : under_way.mix.prompt) += count;
    sequence.planned += count;
    sequence.state_end = sequence.planned;
    ++sequence.in_flight;
    plan.parts.push_back(std::move(part));
  }

  // Rows for `guess`, behind all that is taken for granted already.
  void add_ahead(Sequence& sequence, const std::vector<int32_t>& guess) {
    StepPart part{.id = sequence.id(),
                  .first_position = sequence.tokens.size() + sequence.assumed.size(),
                  .row_count = guess.size(),
                  .logit_rows = guess.size(),
                  .chooses = true,
                  .draft = {guess.begin() + 1, guess.end()},
                  .ahead = true};
    for (size_t i = 0; i < guess.size(); ++i)
      plan.request.rows.push_back({guess[i], *sequence.slot, static_cast<uint32_t>(part.first_position + i),
                                   RowOutput::kLogits, true, sequence.request.candidates,
                                   sequence.request.adapter});
    adapters[part.id] = sequence.request.adapter;
    under_way.parts.push_back({part.id, part.row_count, part.draft.size(), true, true});
    sequence.assumed.insert(sequence.assumed.end(), guess.begin(), guess.end());
    ++sequence.ahead;
    ++sequence.in_flight;
    plan.parts.push_back(std::move(part));
  }

  // Rows of one adapter stand together, so that its matrices are read once.
  void sort_by_adapter() {
    std::vector<StepRow>& rows = plan.request.rows;
    if (std::ranges::is_sorted(rows, {}, &StepRow::adapter)) return;
    std::ranges::stable_sort(rows, {}, &StepRow::adapter);
    std::vector<std::pair<uint32_t, size_t>> order;  // of the parts: adapter, place
    for (const StepPart& part : plan.parts) order.emplace_back(adapters.at(part.id), order.size());
    std::ranges::sort(order);
    std::vector<StepPart> parts;
    for (const auto& [adapter, place] : order) parts.push_back(std::move(plan.parts[place]));
    plan.parts = std::move(parts);
  }

  StepPlan plan;
  std::map<RequestId, uint32_t> adapters;  // of the parts
  UnderWay under_way;
  size_t again_rows = 0;
};

}  // namespace butterfly::runtime
