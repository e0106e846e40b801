// The scheduler when another chain takes over: what it claims to be in the cache, and the steps that compute
// what is not there any more.
#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/check.h"
#include "runtime/engine/refill.h"
#include "runtime/engine/scheduler.h"

namespace butterfly::runtime {
namespace {

constexpr size_t kFirstFillRows = 32;  // before it is known what a row takes, and at least
constexpr size_t kFillTile = 16;       // as steps with prompts

}  // namespace

std::vector<PageClaim> Scheduler::claims() const {
  std::vector<PageClaim> claims;
  // Rows would have to pass layers that have given up what they saw of them: texts are read again.
  if (chain_.window_pages + chain_.state_pages > 0) return claims;
  std::unordered_map<uint32_t, Lineage> ends;  // of pages that are claimed whole
  for (const Sequence* sequence : running_) {
    Lineage lineage = kNoText;
    for (size_t block = 0; block * page_positions_ < sequence->computed; ++block) {
      const uint32_t page = sequence->pages[block];
      const size_t first = block * page_positions_,
                   count = std::min(page_positions_, sequence->computed - first);
      const auto known = ends.find(page);
      if (known != ends.end()) {
        lineage = known->second;
        continue;
      }
      for (size_t i = first; i < first + count; ++i) lineage = lineage_after(lineage, sequence->tokens[i]);
      claims.push_back({page, static_cast<uint32_t>(count), lineage});
      if (count == page_positions_) ends.emplace(page, lineage);
    }
  }
  for (const PagePool::Entry& entry : pool_.published()) {
    if (ends.contains(entry.page)) continue;
    Lineage lineage = kNoText;
    if (entry.parent) {
      const auto parent = ends.find(*entry.parent);
      if (parent == ends.end()) continue;
      lineage = parent->second;
    }
    for (const int32_t token : entry.tokens) lineage = lineage_after(lineage, token);
    claims.push_back({entry.page, static_cast<uint32_t>(page_positions_), lineage});
    ends.emplace(entry.page, lineage);
  }
  return claims;
}

// Pages that texts hold are filled again; those that were only kept for texts to come are given up.
void Scheduler::refill(const std::vector<PageClaim>& claims, const CacheReport& report) {
  BF_CHECK(halted_ && report.claims == claims.size())
      << report.claims << " of " << claims.size() << " claims";
  halted_ = false;
  std::unordered_map<uint32_t, PageRefill> missing;
  std::vector<uint32_t> incomplete;
  for (size_t i = 0; i < claims.size(); ++i) {
    PageRefill lacks = refill_of(report, i, claims[i].count);
    if (lacks.empty()) continue;
    incomplete.push_back(claims[i].page);
    missing.emplace(claims[i].page, std::move(lacks));
  }
  pool_.forget(incomplete);
  for (Sequence* sequence : running_) {
    size_t published = 0;
    while (published < sequence->nodes.size() && pool_.is_published(sequence->pages[published])) ++published;
    sequence->nodes.resize(published);
    commands_.push_back({KvCommand::Kind::kForget, *sequence->slot});
    for (size_t block = 0; block < sequence->pages.size(); ++block)
      commands_.push_back(
          {KvCommand::Kind::kPlace, *sequence->slot, static_cast<uint32_t>(block), sequence->pages[block]});
    // Pages that lack the same layers go through them together.
    const auto spans_of = [&](size_t block) {
      const auto found = missing.find(sequence->pages[block]);
      return found == missing.end() ? std::vector<LayerSpan>() : found->second.spans;
    };
    const size_t blocks = pages_for(sequence->computed);
    for (size_t begin = 0, end; begin < blocks; begin = end) {
      const std::vector<LayerSpan> spans = spans_of(begin);
      for (end = begin + 1; end < blocks && spans_of(end) == spans;) ++end;
      for (const LayerSpan& span : spans)
        for (size_t block = begin; block < end; ++block) {
          const PageRefill& lacks = missing.at(sequence->pages[block]);
          fills_.push_back({sequence->id(), static_cast<uint32_t>(block), lacks.first, lacks.count, span});
        }
    }
  }
}

size_t Scheduler::fill_rows_max() const {
  if (fill_row_seconds_ <= 0) return std::min(options_.rows_max, kFirstFillRows);
  const double seconds = std::chrono::duration<double>(options_.prompt_step_time).count();
  const auto rows = static_cast<size_t>(std::min(seconds / fill_row_seconds_, 1e6));
  return std::min(std::max(rows / kFillTile * kFillTile, kFirstFillRows), options_.rows_max);
}

// The next rows that lack the same layers, of one text or of several.
std::optional<StepPlan> Scheduler::plan_fill() {
  StepPlan plan;
  std::vector<StepRow>& rows = plan.request.rows;
  std::set<uint32_t> pages;  // of this step
  const size_t rows_max = fill_rows_max();
  while (!fills_.empty() && rows.size() < rows_max) {
    Fill& fill = fills_.front();
    const auto it = sequences_.find(fill.id);
    const Sequence* sequence = it == sequences_.end() ? nullptr : it->second.get();
    // Its request is over, or the page is another text's too and that one was first.
    if (sequence == nullptr || !sequence->slot ||
        filled_.contains({sequence->pages[fill.block], fill.span.begin})) {
      fills_.pop_front();
      continue;
    }
    const size_t position = fill.block * page_positions_ + fill.first;
    const bool goes_on = !rows.empty() && rows.back().sequence == *sequence->slot;
    // A text's rows stand together; and what they stand on is not of the same step.
    const auto is_in_step = [&](const StepRow& row) { return row.sequence == *sequence->slot; };
    const bool fits = goes_on ? rows.back().position + 1 == position
                              : std::ranges::none_of(rows, is_in_step) &&
                                    (fill.block == 0 || !pages.contains(sequence->pages[fill.block - 1]));
    if (!rows.empty() && (fill.span != plan.request.fill || !fits)) break;
    plan.request.fill = fill.span;
    const size_t count = std::min<size_t>(fill.end - fill.first, rows_max - rows.size());
    for (size_t i = position; i < position + count; ++i)
      rows.push_back({sequence->tokens[i], *sequence->slot, static_cast<uint32_t>(i), RowOutput::kNone});
    pages.insert(sequence->pages[fill.block]);
    if (!goes_on) plan.filled.push_back({fill.id, 0});
    plan.filled.back().last = position + count - 1;
    fill.first += static_cast<uint32_t>(count);
    if (fill.first < fill.end) break;
    filled_.emplace(sequence->pages[fill.block], fill.span.begin);
    fills_.pop_front();
  }
  if (rows.empty()) return std::nullopt;
  plan.request.epoch = epoch_;
  plan.request.step = next_step_++;
  plan.request.commands = std::exchange(commands_, {});
  UnderWay under_way;
  under_way.step = plan.request.step;
  under_way.fill_rows = rows.size();
  under_way_.push_back(std::move(under_way));
  ++stats_.steps;
  stats_.rows += rows.size();
  stats_.again_rows += rows.size();
  stats_.again_row_layers += rows.size() * (plan.request.fill.end - plan.request.fill.begin);
  return plan;
}

}  // namespace butterfly::runtime
