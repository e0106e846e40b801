// The scheduler's part in bringing back beginnings of texts that were kept elsewhere.
#include <algorithm>

#include "base/check.h"
#include "runtime/engine/scheduler.h"

namespace butterfly::runtime {

using graph::kNoPage;
using graph::PageKind;

Scheduler::Beginning Scheduler::beginning(RequestId id) const {
  const Sequence& sequence = *sequences_.at(id);
  std::vector<PagePool::Published> matched;
  const size_t usable = match_prefix(sequence, matched);
  return {matched.size(), usable};
}

void Scheduler::set_restoring(RequestId id, bool restoring) {
  if (const auto it = sequences_.find(id); it != sequences_.end()) it->second->restoring = restoring;
}

std::optional<PagePool::NodeId> Scheduler::node_before(RequestId id, size_t block) const {
  const Sequence& sequence = *sequences_.at(id);
  PagePool::NodeId node = sequence.root;
  for (size_t b = 0; b < block; ++b) {
    const auto found =
        pool_.find(node, std::span(sequence.tokens).subspan(b * page_positions_, page_positions_));
    if (!found) return std::nullopt;
    node = found->node;
  }
  return node;
}

std::optional<Scheduler::Adopted> Scheduler::adopt(RequestId id, PagePool::NodeId parent, size_t block,
                                                   size_t blocks, uint32_t parts) {
  const Sequence& sequence = *sequences_.at(id);
  const auto tokens = std::span(sequence.tokens).subspan(block * page_positions_, page_positions_);
  Adopted adopted;
  if (const auto known = pool_.find(parent, tokens)) {
    pool_.add_user(known->page);
    adopted.page = known->page;
    adopted.node = known->node;
  } else {
    // As in admission: running texts get what they need, and a page more each.
    if (pool_.available() <= pages_promised() + running_.size()) return std::nullopt;
    const auto page = pool_.allocate();
    if (!page) return std::nullopt;
    adopted.page = adopted.fresh[static_cast<size_t>(PageKind::kFull)] = *page;
    adopted.node = pool_.publish(parent, tokens, *page).node;
  }
  const auto attach = [&](PageKind kind, size_t spare) {
    SidePool& side = pool_.side(kind);
    if ((parts >> static_cast<size_t>(kind) & 1) == 0 || side.find(adopted.page) || side.available() <= spare)
      return;
    const auto page = side.allocate();
    if (!page) return;
    side.attach(adopted.page, *page);
    adopted.fresh[static_cast<size_t>(kind)] = *page;
  };
  // Windows have room for their ends alone; what was seen before is seen by nobody who goes on behind.
  if (chain_.window_pages > 0 && block >= first_in_window(blocks * page_positions_))
    attach(PageKind::kWindow, window_pages_promised());
  if (chain_.state_pages > 0) attach(PageKind::kState, 3 * running_.size());
  return adopted;
}

// Last to first, so that an end is forgotten before its beginning.
void Scheduler::let_go(std::span<const Adopted> adopted) {
  for (size_t i = adopted.size(); i > 0; --i) {
    const Adopted& page = adopted[i - 1];
    for (const PageKind kind : {PageKind::kWindow, PageKind::kState})
      if (const uint32_t side = page.fresh[static_cast<size_t>(kind)]; side != kNoPage)
        pool_.side(kind).release(side);
    pool_.release(page.page);
  }
}

}  // namespace butterfly::runtime
