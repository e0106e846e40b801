// Pages of a cache from the node that had their layers to the one that has them now, over a link of their
// own. The receiver asks by name (see lineage.h) and knows how long each answer must be.
//
//   request   80 bytes: what the pages are of (hash of model and settings), layers; then claims as in
//             resume_message.h, at most kRequestClaims. No claims: these layers will not be asked for again.
//   answer    for each claim a message of 16 bytes (here or not, number of names, check) and 32 for each
//             name; if it is here the bytes of the page, layer by layer, in messages of at most kPieceBytes
//
// Who can name a text's position has its text, or has had it: nobody learns anything new.
#pragma once
#include <functional>
#include <memory>

#include "base/sha256.h"
#include "cluster/transport/link.h"
#include "runtime/engine/stage_cache.h"

namespace butterfly::runtime {

inline constexpr size_t kRequestClaims = 64;
inline constexpr size_t kPieceBytes = 1 << 20;

// Layers of what.
struct LayersOf {
  Sha256 model{};  // and settings
  size_t begin = 0, end = 0;
};

// What a holder gives away. As thread-safe as who implements it: serve_pages() calls it on its own thread.
class PageStore {
 public:
  virtual ~PageStore() = default;
  // A cache with these layers that nobody writes any more; null: not here. May wait a moment for it.
  virtual std::shared_ptr<const StageCache> find(const LayersOf& layers) = 0;
  // They will not be asked for again.
  virtual void done(const LayersOf& layers) = 0;
};

// Bytes of a claimed page in layers [begin, end) of a cache that has them.
size_t page_bytes(const StageCache& cache, const PageClaim& claim, size_t begin, size_t end);

// Answers until the link ends. kCorrupt: the peer asked what no program of ours would. Closes the link.
Status serve_pages(cluster::Link& link, PageStore& store);

struct PagesCame {
  size_t pages = 0;
  uint64_t bytes = 0;
};
// Has these claims sent, as far as layers of `into` lack them, and writes what came whole into it. An error
// ends it: kTimeout, kPeerLost, kCorrupt; what came before stays. `epoch`: of the chain, for the heads.
Status receive_pages(cluster::Link& link, uint64_t epoch, const LayersOf& layers,
                     std::span<const PageClaim> claims, StageCache& into, const Deadline& deadline,
                     PagesCame& came);
// That was all.
Status send_done(cluster::Link& link, uint64_t epoch, const LayersOf& layers, Duration timeout);

}  // namespace butterfly::runtime
