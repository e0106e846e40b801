// What an engine and its parts can be told. One struct inside the other: a setting has one place.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/result.h"
#include "tensor/dtype.h"

namespace butterfly::runtime {

class AdapterTable;
class CachePages;
class PageSource;
class PrefixStore;

// How requests become steps.
struct SchedulerOptions {
  size_t running_max = 16;              // requests that advance in the same step
  size_t waiting_max = 64;              // requests in the queue
  size_t waiting_tokens_max = 1 << 18;  // prompt tokens in the queue
  size_t context = 0;                   // positions of one request; 0: as many as the chain has
  size_t rows_max = 0;                  // of one step; 0: as many as the chain takes
  size_t logit_rows_max = 64;           // of one prompt in one step: logits are large
  // While others read their prompts in, a step takes at most so many times what the running streams alone
  // would take.
  double stall_max = 2.0;
  // A step that only reads prompts takes about this long: new requests and cancellations wait for its end.
  Duration prompt_step_time = std::chrono::milliseconds(400);
  // While others have work, requests in the background get steps of their own, for this part of the others'
  // time.
  double background_share = 0.08;
  bool reuse_prefix = true;
  bool share_prefixes = false;  // also between clients: quicker, and each can find out what others have sent
  // Recurrent layers cannot go back: their state is kept every so many positions, besides at the ends of
  // prompts and messages.
  size_t snapshot_every = 512;
  bool speculate = true;
  size_t draft_max = 15;  // tokens guessed ahead for one request
  // Of the guesses that the model's own block makes, where the chain predicts: so many in each step, whatever
  // they cost; not set: as many as pay.
  std::optional<size_t> predict_always = std::nullopt;
};

struct EngineOptions {
  SchedulerOptions scheduler = {};
  // Called on the engine's thread when the chain is lost and cannot be reset, with the reason; must return at
  // once. Requests then wait, logs and all, until somebody calls replace_chain(), but at most chain_wait_max;
  // after that they end with kError and kPeerLost. Empty: the engine tries the same chain a few times.
  std::function<void(const Status&)> on_chain_lost = {};
  Duration chain_wait_max = std::chrono::seconds(30);
  // Beginnings of texts are looked for here, and put here when the engine stops. Only where the whole cache
  // is on this machine (Chain::cache_pages). Null: they end with the engine.
  std::function<std::shared_ptr<PrefixStore>(const CachePages& pages)> prefix_store = {};
  // Of which requests may name some. Null: none may.
  std::shared_ptr<AdapterTable> adapters = nullptr;
};

class StageCache;

// Of layers whose cache the engine places, page by page.
struct PagedLayersOptions {
  size_t positions = 0;  // of the cache; 0: the model's context
  size_t sequences = 16;
  DType kv_type = DType::kF16;
  size_t rows_max = 512;  // per step
  // With the model's block that predicts ahead, if it was loaded: only where all layers are.
  bool predict = false;
  // Layers with a window keep only that. False: they keep all positions, so that what they hold can be asked
  // for by name (StageCache).
  bool cut_windows = true;
  // Shared with the stage before and after; has the layers. Null: a cache of its own, whose contents nobody
  // knows.
  std::shared_ptr<StageCache> stage_cache = nullptr;
  // Who may have what it lacks; null: nobody.
  std::shared_ptr<PageSource> page_source = nullptr;
  // What a row takes in a layer, as measured, in seconds; may be null.
  std::function<double()> row_layer_seconds = nullptr;
  // Of which rows may name some; null: none may.
  std::shared_ptr<AdapterTable> adapters = nullptr;
};

}  // namespace butterfly::runtime
