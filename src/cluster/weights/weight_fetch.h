// Collects chunks of a model from the nodes that have them.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/transport/link.h"
#include "cluster/weights/chunk_store.h"

namespace butterfly::cluster {

// Somebody who may have chunks.
struct WeightPeer {
  std::string name;
  std::function<Result<std::unique_ptr<Link>>()> open;  // a link whose other end is in serve_weights()
};

struct FetchOptions {
  Duration answer_max = std::chrono::seconds(30);  // for one answer; then the peer counts as lost
  uint32_t piece_bytes = 64 << 10;                 // of one answer: at 4 kB/s still within the time for it
  size_t ahead = 32;                               // requests under way at one peer
  size_t wrong_max = 3;                            // wrong chunks from one peer before it is left alone
  size_t opens_max = 3;                            // links to one peer
  Duration reopen_wait = std::chrono::milliseconds(200);
  uint64_t bytes_per_s = 0;  // over all peers; 0: no bound
  // Bytes that have come, also of chunks that are not whole yet; from any thread, one at a time.
  std::function<void(uint64_t done, uint64_t total)> progress;
  const std::atomic<bool>* cancelled = nullptr;
};

struct FetchReport {
  struct Peer {
    std::string name;
    uint64_t chunks = 0, bytes = 0, wrong = 0;
    std::string problem;  // the last
  };
  std::vector<Peer> peers;
  uint64_t chunks = 0, bytes = 0, wrong = 0;
};

// The manifest with this id, from the first peer that has it and tells the truth. kNotFound names what each
// said.
Result<Manifest> fetch_manifest(const Digest& id, const std::vector<WeightPeer>& peers,
                                const FetchOptions& options = {});

// Puts the wanted chunks that are missing into the store: from all peers at once, each chunk from one. A
// chunk that arrives wrong is asked of another peer; nothing else is affected. What was put stays, whatever
// happens: the next call continues. kPeerLost with what each peer said when some chunks cannot be had;
// kCancelled; kIo when the disk refuses.
Result<FetchReport> fetch_chunks(ChunkStore& store, const ChunkSet& wanted,
                                 const std::vector<WeightPeer>& peers, const FetchOptions& options = {});

}  // namespace butterfly::cluster
