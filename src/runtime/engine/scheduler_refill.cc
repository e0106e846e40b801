// The scheduler when another chain takes over: what it claims to be in the cache, and the steps that compute
// what is not there any more.
#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/check.h"
#include "runtime/engine/refill.h"
#include "runtime/engine/scheduler.h"

namespace butterfly::runtime {

using graph::kNoPage;
using graph::PageKind;

namespace {

constexpr size_t kFirstFillRows = 32;  // before it is known what a row takes, and at least
constexpr size_t kFillTile = 16;       // as steps with prompts

}  // namespace

std::vector<PageClaim> Scheduler::claims() const {
  std::vector<PageClaim> claims;
  // Rows would have to pass layers that have given up what they saw of them: texts are read again.
  if (chain_.window_pages > 0) return claims;
  std::unordered_map<uint32_t, Lineage> ends;  // of pages that are claimed whole
  for (const Sequence* sequence : running_) {
    Lineage lineage = lineage_of_adapter(sequence->request.adapter);
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
    Lineage lineage = entry.parent ? kNoText : lineage_of_adapter(root(entry.owner).adapter);
    if (entry.parent) {
      const auto parent = ends.find(*entry.parent);
      if (parent == ends.end()) continue;
      lineage = parent->second;
    }
    for (const int32_t token : entry.tokens) lineage = lineage_after(lineage, token);
    claims.push_back({entry.page, static_cast<uint32_t>(page_positions_), lineage, PageKind::kFull, false});
    ends.emplace(entry.page, lineage);
  }
  if (chain_.state_pages > 0) claim_states(claims, ends);
  return claims;
}

Scheduler::StatePlace Scheduler::last_state(const Sequence& sequence) const {
  const size_t block = sequence.state_seen == 0 ? 0 : (sequence.state_seen - 1) / page_positions_;
  const std::vector<uint32_t>& pages = sequence.side(PageKind::kState);
  const bool has = sequence.state_seen > 0 && block < pages.size() && pages[block] != kNoPage;
  return has ? StatePlace{sequence.state_seen, pages[block]} : StatePlace{0, kNoPage};
}

Scheduler::StatePlace Scheduler::last_block_state(const Sequence& sequence) const {
  const size_t blocks = sequence.state_seen / page_positions_;
  const std::vector<uint32_t>& pages = sequence.side(PageKind::kState);
  const bool has = blocks > 0 && blocks <= pages.size() && pages[blocks - 1] != kNoPage;
  return has ? StatePlace{blocks * page_positions_, pages[blocks - 1]} : StatePlace{0, kNoPage};
}

// States of texts that run, and those that are kept with published pages. `ends`: names of whole pages.
void Scheduler::claim_states(std::vector<PageClaim>& claims,
                             const std::unordered_map<uint32_t, Lineage>& ends) const {
  std::set<uint32_t> claimed;
  const auto claim = [&](uint32_t page, const Lineage& behind, bool in_use) {
    if (claimed.insert(page).second) claims.push_back({page, 1, behind, PageKind::kState, in_use});
  };
  for (const Sequence* sequence : running_) {
    for (const StatePlace& place : {last_state(*sequence), last_block_state(*sequence)}) {
      if (place.position == 0) continue;
      const size_t blocks = place.position / page_positions_;  // whole ones
      Lineage behind =
          blocks == 0 ? lineage_of_adapter(sequence->request.adapter) : ends.at(sequence->pages[blocks - 1]);
      for (size_t i = blocks * page_positions_; i < place.position; ++i)
        behind = lineage_after(behind, sequence->tokens[i]);
      claim(place.page, behind, true);
    }
  }
  for (const PagePool::Entry& entry : pool_.published())
    if (const auto state = pool_.side(PageKind::kState).find(entry.page); state && ends.contains(entry.page))
      claim(*state, ends.at(entry.page), false);
}

void Scheduler::refill(const std::vector<PageClaim>& claims, const CacheReport& report) {
  BF_CHECK(halted_ && report.claims == claims.size())
      << report.claims << " of " << claims.size() << " claims";
  halted_ = false;
  if (chain_.state_pages > 0) {
    refill_texts(claims, report);
  } else {
    refill_pages(claims, report);
  }
}

// The stages have forgotten where a text's pages are.
void Scheduler::place_again(Sequence& sequence) {
  size_t published = 0;
  while (published < sequence.nodes.size() && (published + 1) * page_positions_ <= sequence.computed &&
         pool_.is_published(sequence.pages[published]))
    ++published;
  sequence.nodes.resize(published);
  commands_.push_back({KvCommand::Kind::kForget, *sequence.slot});
  const auto place = [&](const std::vector<uint32_t>& pages, PageKind kind) {
    for (size_t block = 0; block < pages.size(); ++block)
      if (pages[block] != kNoPage)
        commands_.push_back(
            {KvCommand::Kind::kPlace, *sequence.slot, static_cast<uint32_t>(block), pages[block], kind});
  };
  place(sequence.pages, PageKind::kFull);
  place(sequence.side(PageKind::kState), PageKind::kState);
}

// Pages that texts hold are filled again; those that were only kept for texts to come are given up.
void Scheduler::refill_pages(const std::vector<PageClaim>& claims, const CacheReport& report) {
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
    place_again(*sequence);
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

// With recurrent layers: a text goes on from the last state that all layers have, or get by its rows from the
// first one on. What is behind that state is read again.
void Scheduler::refill_texts(const std::vector<PageClaim>& claims, const CacheReport& report) {
  std::unordered_map<uint32_t, size_t> of_page, of_state;
  std::vector<uint32_t> incomplete;
  std::set<uint32_t> lost_states;
  for (size_t i = 0; i < claims.size(); ++i) {
    const PageClaim& claim = claims[i];
    (claim.kind == PageKind::kState ? of_state : of_page).emplace(claim.page, i);
    if (refill_of(report, i, claim.count).empty()) continue;
    if (claim.kind == PageKind::kFull) incomplete.push_back(claim.page);
    if (claim.kind == PageKind::kState) lost_states.insert(claim.page);
  }
  pool_.forget(incomplete);
  for (const PagePool::Entry& entry : pool_.published())
    if (const auto state = pool_.side(PageKind::kState).find(entry.page);
        state && lost_states.contains(*state))
      pool_.side(PageKind::kState).detach(entry.page);
  std::vector<Sequence*> over;
  for (Sequence* sequence : running_) {
    const StatePlace last = last_state(*sequence), block_end = last_block_state(*sequence);
    TextClaims text;
    for (size_t block = 0; block < pages_for(sequence->computed); ++block)
      text.pages.push_back(of_page.at(sequence->pages[block]));
    if (last.position > 0 && is_own(*sequence, last.position))
      text.last = {last.position, of_state.at(last.page)};
    if (block_end.position > 0) text.block_end = {block_end.position, of_state.at(block_end.page)};
    const TextRefill lacks = refill_of(report, text, page_positions_);
    sequence->computed_before = std::max(sequence->computed_before, sequence->computed);
    // Nothing is left of it: it is read as at first.
    const bool all = lacks.spans == std::vector<LayerSpan>{{0, static_cast<uint32_t>(report.layers.size())}};
    const size_t position = all ? 0 : lacks.position;
    const bool had_begun = sequence->computed > 0;
    sequence->computed = sequence->planned = sequence->state_seen = sequence->state_end = position;
    if (had_begun && position == 0) {
      over.push_back(sequence);
      continue;
    }
    // What is behind it is written anew, where nobody else reads.
    for (; sequence->pages.size() > pages_for(position); sequence->pages.pop_back())
      pool_.release(sequence->pages.back());
    place_again(*sequence);
    const auto end = static_cast<uint32_t>(position), ended = static_cast<uint32_t>(block_end.position);
    for (const LayerSpan& span : lacks.spans) {
      // The beginning, which texts may share, apart.
      if (ended > 0) fills_.push_back({sequence->id(), 0, 0, ended, span, block_end.page});
      if (end > ended) fills_.push_back({sequence->id(), 0, ended, end, span, last.page});
    }
  }
  for (; !over.empty(); over.pop_back()) preempt(*over.back());  // youngest first, as forget() does
}

// Whether rows behind this position of its text write where no other text reads.
bool Scheduler::is_own(const Sequence& sequence, size_t position) const {
  if (position % page_positions_ == 0) return true;  // into the next page
  const uint32_t page = sequence.pages[position / page_positions_];
  return pool_.users(page) == 1 && !pool_.is_published(page);
}

size_t Scheduler::fill_rows_max() const {
  if (fill_row_seconds_ <= 0) return std::min(options_.rows_max, kFirstFillRows);
  const double seconds = std::chrono::duration<double>(options_.prompt_step_time).count();
  const auto rows = static_cast<size_t>(std::min(seconds / fill_row_seconds_, 1e6));
  return std::min(std::max(rows / kFillTile * kFillTile, kFirstFillRows), options_.rows_max);
}

// Its request is over, or what it fills is another text's too and that one was first.
bool Scheduler::fill_is_over(const Fill& fill) const {
  const auto it = sequences_.find(fill.id);
  if (it == sequences_.end() || !it->second->slot) return true;
  return fill.state == kNoPage ? filled_.contains({it->second->pages[fill.block], fill.span.begin})
                               : filled_states_.contains({fill.state, fill.span.begin, fill.span.end});
}

// Whether its rows can be in this step too, in which these pages are written.
bool Scheduler::fits_in(const StepPlan& plan, const Fill& fill, const std::set<uint32_t>& pages) const {
  const std::vector<StepRow>& rows = plan.request.rows;
  if (rows.empty()) return true;
  if (fill.span != plan.request.fill) return false;
  const Sequence& sequence = *sequences_.at(fill.id);
  const size_t position = fill.block * page_positions_ + fill.first;
  // A text's rows stand together; and what they stand on, or write, is not of the same step.
  if (rows.back().sequence == *sequence.slot) return rows.back().position + 1 == position;
  if (std::ranges::any_of(rows, [&](const StepRow& row) { return row.sequence == *sequence.slot; }))
    return false;
  if (fill.state == kNoPage) return fill.block == 0 || !pages.contains(sequence.pages[fill.block - 1]);
  return std::ranges::none_of(std::span(sequence.pages).first(pages_for(fill.end)),
                              [&](uint32_t page) { return pages.contains(page); });
}

// The next rows that lack the same layers, of one text or of several.
std::optional<StepPlan> Scheduler::plan_fill() {
  StepPlan plan;
  std::vector<StepRow>& rows = plan.request.rows;
  std::set<uint32_t> pages;  // of this step
  const size_t rows_max = fill_rows_max();
  while (!fills_.empty() && rows.size() < rows_max) {
    Fill& fill = fills_.front();
    if (fill_is_over(fill)) {
      fills_.pop_front();
      continue;
    }
    if (!fits_in(plan, fill, pages)) break;
    const Sequence& sequence = *sequences_.at(fill.id);
    const size_t position = fill.block * page_positions_ + fill.first;
    const bool goes_on = !rows.empty() && rows.back().sequence == *sequence.slot;
    plan.request.fill = fill.span;
    const size_t count = std::min<size_t>(fill.end - fill.first, rows_max - rows.size());
    for (size_t i = position; i < position + count; ++i) {
      rows.push_back({sequence.tokens[i], *sequence.slot, static_cast<uint32_t>(i), RowOutput::kNone, false,
                      0, sequence.request.adapter});
      pages.insert(sequence.pages[i / page_positions_]);
    }
    // The state behind the last row needs a place: that of the last one of all, until that is computed.
    // (Blocks that have a page of their own keep it.)
    const auto last = static_cast<uint32_t>((position + count - 1) / page_positions_);
    const std::vector<uint32_t>& states = sequence.side(PageKind::kState);
    if (fill.state != kNoPage && (last >= states.size() || states[last] == kNoPage))
      commands_.push_back({KvCommand::Kind::kPlace, *sequence.slot, last, fill.state, PageKind::kState});
    if (!goes_on) plan.filled.push_back({fill.id, 0});
    plan.filled.back().last = position + count - 1;
    fill.first += static_cast<uint32_t>(count);
    if (fill.first < fill.end) break;
    if (fill.state == kNoPage) {
      filled_.emplace(sequence.pages[fill.block], fill.span.begin);
    } else {
      filled_states_.emplace(fill.state, fill.span.begin, fill.span.end);
    }
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
