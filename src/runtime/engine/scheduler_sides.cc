// The scheduler's pages of the kinds that a text has for some of its blocks only: those of layers that see a
// window, and of layers with a recurrent state.
#include <algorithm>

#include "base/check.h"
#include "base/checked.h"
#include "runtime/engine/scheduler.h"

namespace butterfly::runtime {

using graph::kNoPage;
using graph::PageKind;

namespace {

bool has(const std::vector<uint32_t>& pages, size_t block) {
  return block < pages.size() && pages[block] != kNoPage;
}

}  // namespace

// The first block that the row at this position sees in a window.
size_t Scheduler::first_in_window(size_t position) const {
  return first_block_in_window(position, chain_.window, page_positions_);
}

void Scheduler::place_side(Sequence& sequence, PageKind kind, size_t block, uint32_t page) {
  std::vector<uint32_t>& pages = sequence.side(kind);
  if (pages.size() <= block) pages.resize(block + 1, kNoPage);
  pages[block] = page;
  commands_.push_back({KvCommand::Kind::kPlace, *sequence.slot, static_cast<uint32_t>(block), page, kind});
}

void Scheduler::release_side(Sequence& sequence, PageKind kind, size_t block) {
  uint32_t& page = sequence.side(kind)[block];
  pool_.side(kind).release(page);
  page = kNoPage;
}

bool Scheduler::hold_side(Sequence& sequence, PageKind kind, size_t block) {
  if (has(sequence.side(kind), block)) return true;
  const auto page = pool_.side(kind).allocate();
  if (page) place_side(sequence, kind, block, *page);
  return page.has_value();
}

// Whether the state behind this block is worth keeping for later texts: at the end of the prompt and of each
// message, as far as they fill a block, and now and then.
bool Scheduler::wants_snapshot(const Sequence& sequence, size_t block) const {
  const size_t end = (block + 1) * page_positions_;
  return end % (ceil_div(options_.snapshot_every, page_positions_) * page_positions_) == 0 ||
         std::ranges::binary_search(sequence.snapshots, end);
}

bool Scheduler::hold_sides(Sequence& sequence, size_t positions, size_t guesses) {
  if (chain_.window_pages > 0)
    for (size_t block = first_in_window(sequence.planned); block < pages_for(positions); ++block)
      if (!hold_side(sequence, PageKind::kWindow, block)) return false;
  if (chain_.state_pages == 0) return true;
  // The state behind the last row that is certain; and behind the last block that ends, if that is to be had:
  // from there the text can begin again.
  const size_t certain = positions - guesses;
  if (certain <= sequence.state_end) return true;  // no new row
  if (!hold_side(sequence, PageKind::kState, (certain - 1) / page_positions_)) return false;
  const size_t first = sequence.state_end / page_positions_, ended = certain / page_positions_;
  if (ended > first) hold_side(sequence, PageKind::kState, ended - 1);
  // Snapshots take what running texts will not need.
  if (options_.reuse_prefix && sequence.request.reuse_prefix)
    for (size_t block = first; block + 1 < ended; ++block)
      if (wants_snapshot(sequence, block) &&
          pool_.side(PageKind::kState).available() > 3 * options_.running_max)
        hold_side(sequence, PageKind::kState, block);
  return true;
}

// How far, up to `wanted`, the pages that are held reach.
size_t Scheduler::held_positions(const Sequence& sequence, size_t wanted) const {
  size_t held = std::min(wanted, sequence.pages.size() * page_positions_);
  if (chain_.window_pages > 0) {
    size_t block = first_in_window(sequence.planned);
    while (has(sequence.side(PageKind::kWindow), block)) ++block;
    held = std::min(held, block * page_positions_);
  }
  const auto has_state = [&](size_t end) {
    return chain_.state_pages == 0 || has(sequence.side(PageKind::kState), (end - 1) / page_positions_);
  };
  if (held > sequence.planned && !has_state(held)) {
    held = std::min(held, (sequence.planned / page_positions_ + 1) * page_positions_);
    if (!has_state(held)) held = sequence.planned;
  }
  return std::max(held, sequence.planned);
}

// Of the published pages that hold a text's beginning, those behind which all layers can go on.
void Scheduler::cut_to_sides(std::vector<PagePool::Published>& matched) const {
  if (chain_.window_pages + chain_.state_pages == 0) return;
  std::vector<size_t> whole(matched.size() + 1,
                            0);  // blocks up to here, without a gap, that have a window page
  for (size_t i = 0; i < matched.size(); ++i)
    whole[i + 1] = pool_.side(PageKind::kWindow).find(matched[i].page) ? whole[i] + 1 : 0;
  const auto can_go_on = [&](size_t blocks) {
    if (chain_.window_pages > 0 && whole[blocks] < blocks - first_in_window(blocks * page_positions_))
      return false;
    return chain_.state_pages == 0 || pool_.side(PageKind::kState).find(matched[blocks - 1].page).has_value();
  };
  while (!matched.empty() && !can_go_on(matched.size())) matched.pop_back();
}

void Scheduler::place_matched_sides(Sequence& sequence) {
  const size_t blocks = sequence.pages.size();
  const auto share = [&](PageKind kind, size_t block) {
    const uint32_t page = *pool_.side(kind).find(sequence.pages[block]);
    pool_.side(kind).add_user(page);
    place_side(sequence, kind, block, page);
  };
  for (size_t block = first_in_window(blocks * page_positions_); chain_.window_pages > 0 && block < blocks;
       ++block)
    share(PageKind::kWindow, block);
  if (chain_.state_pages > 0 && blocks > 0) share(PageKind::kState, blocks - 1);
  sequence.state_seen = sequence.state_end = blocks * page_positions_;
  sequence.states_from = blocks > 0 ? blocks - 1 : 0;
}

// Window pages that running requests still need.
size_t Scheduler::window_pages_of(size_t positions) const {
  return std::min(pages_for(positions), ceil_div(chain_.window, page_positions_) + 2);
}

size_t Scheduler::window_pages_promised() const {
  size_t promised = 0;
  for (const Sequence* sequence : running_) {
    const size_t needed = window_pages_of(sequence->tokens.size());
    const auto held = static_cast<size_t>(std::ranges::count_if(
        sequence->side(PageKind::kWindow), [](uint32_t page) { return page != kNoPage; }));
    promised += needed > held ? needed - held : 0;
  }
  return promised;
}

// What a published block has of another kind can be found with it.
void Scheduler::publish_side(Sequence& sequence, PageKind kind, size_t block) {
  if (block < sequence.nodes.size() && has(sequence.side(kind), block))
    pool_.side(kind).attach(sequence.pages[block], sequence.side(kind)[block]);
}

// Gives back what neither the rows to come nor those under way will look at.
void Scheduler::trim_sides(Sequence& sequence) {
  std::vector<uint32_t>& window = sequence.side(PageKind::kWindow);
  const size_t seen = std::min(first_in_window(sequence.computed), window.size());
  for (size_t block = seen; block > 0 && window[block - 1] != kNoPage; --block)
    release_side(sequence, PageKind::kWindow, block - 1);
  for (size_t block = sequence.states_from; (block + 1) * page_positions_ <= sequence.state_seen; ++block)
    if (wants_snapshot(sequence, block)) publish_side(sequence, PageKind::kState, block);
  // The last state at the end of a block stays, besides the one that the text goes on from.
  for (; (sequence.states_from + 2) * page_positions_ <= sequence.state_seen; ++sequence.states_from) {
    const size_t block = sequence.states_from;
    if (has(sequence.side(PageKind::kState), block)) release_side(sequence, PageKind::kState, block);
  }
}

// Its place is given up: the last state at the end of a block is where it, or a text that goes on from it,
// can begin.
void Scheduler::give_back_sides(Sequence& sequence) {
  const size_t ended = sequence.state_seen / page_positions_;
  if (ended > 0) publish_side(sequence, PageKind::kState, ended - 1);
  for (const PageKind kind : {PageKind::kWindow, PageKind::kState}) {
    std::vector<uint32_t>& pages = sequence.side(kind);
    for (size_t block = pages.size(); block > 0; --block)
      if (pages[block - 1] != kNoPage) release_side(sequence, kind, block - 1);
    pages.clear();
  }
  sequence.states_from = sequence.state_seen = sequence.state_end = 0;
}

}  // namespace butterfly::runtime
