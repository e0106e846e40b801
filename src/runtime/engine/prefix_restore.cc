#include "runtime/engine/prefix_restore.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "base/log.h"
#include "base/units.h"
#include "runtime/engine/adapter_table.h"

namespace butterfly::runtime {
namespace {

using graph::kNoPage;
using graph::PageKind;

constexpr size_t kAheadBytes = size_t{64} << 20;  // read and not yet copied
constexpr size_t kTakeBytes = size_t{16} << 20;   // copied between two steps: some 5 ms

}  // namespace

PrefixRestore::PrefixRestore(std::shared_ptr<PrefixStore> store, std::function<void()> on_ready)
    : store_(std::move(store)), on_ready_(std::move(on_ready)) {}

PrefixRestore::~PrefixRestore() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void PrefixRestore::begin(RequestId id, const PrefixStore::Name& root, size_t stored, TimePoint now,
                          Scheduler& scheduler) {
  const Scheduler::Beginning beginning = scheduler.beginning(id);
  const size_t pages = std::min(stored, beginning.usable);
  if (pages <= beginning.here) return;
  page_positions_ = scheduler.pages().page_positions();
  const std::vector<int32_t>& tokens = scheduler.sequence(id).tokens;
  Waiting& waiting = waiting_[id];
  waiting.since = now;
  waiting.pages = pages;
  waiting_count_ = waiting_.size();
  Job job{id,
          {},
          {tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(pages * page_positions_)},
          beginning.here,
          waiting.dropped};
  PrefixStore::Name name = root;
  for (size_t i = 0; i < pages; ++i)
    job.names.push_back(
        name = PrefixStore::next(name, std::span(job.tokens).subspan(i * page_positions_, page_positions_)));
  scheduler.set_restoring(id, true);
  const std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
}

bool PrefixRestore::hand_over(Loaded loaded) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopping_ || loaded_bytes_ < kAheadBytes; });
    if (stopping_) return false;
    loaded_bytes_ += loaded.page.bytes.size();
    loaded_.push_back(std::move(loaded));
  }
  on_ready_();
  return true;
}

void PrefixRestore::run() {
  for (;;) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
      if (stopping_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    const size_t positions = job.tokens.size() / job.names.size();
    for (size_t block = job.first; block < job.names.size() && !*job.dropped; ++block) {
      auto page = store_->load(job.names[block], std::span(job.tokens).subspan(block * positions, positions));
      if (!page) break;
      if (!hand_over({job.id, block, std::move(*page)})) return;
    }
    store_->used(job.names);
    if (!hand_over({job.id, 0, {}})) return;
  }
}

bool PrefixRestore::ready() const {
  const std::lock_guard lock(mutex_);
  return !loaded_.empty();
}

// The pages stay, for this request and others; nobody holds them any more.
void PrefixRestore::let_go(RequestId id, Waiting& waiting, Scheduler& scheduler) {
  scheduler.let_go(waiting.adopted);
  waiting.adopted.clear();
  scheduler.set_restoring(id, false);
}

void PrefixRestore::give_up(RequestId id, Waiting& waiting, Scheduler& scheduler) {
  waiting.given_up = true;
  *waiting.dropped = true;
  let_go(id, waiting, scheduler);
}

void PrefixRestore::take(TimePoint now, std::mutex& mutex, Scheduler& scheduler, CachePages& pages) {
  for (size_t moved = 0; moved < kTakeBytes;) {
    Loaded loaded;
    {
      const std::lock_guard lock(mutex_);
      if (loaded_.empty()) break;
      loaded = std::move(loaded_.front());
      loaded_.pop_front();
      loaded_bytes_ -= loaded.page.bytes.size();
      changed_.notify_all();
    }
    Scheduler::Adopted place;
    {
      const std::lock_guard lock(mutex);
      const auto it = waiting_.find(loaded.id);
      if (it == waiting_.end()) continue;
      Waiting& waiting = it->second;
      if (loaded.page.parts == 0) {
        let_go(loaded.id, waiting, scheduler);
        if (waiting.fresh > 0)
          log_info("{} tokens of a prompt came back from disk in {}", waiting.fresh * page_positions_,
                   format_duration(now - waiting.since));
        waiting_.erase(it);
        waiting_count_ = waiting_.size();
        continue;
      }
      if (waiting.given_up) continue;
      if (!scheduler.knows(loaded.id)) {
        give_up(loaded.id, waiting, scheduler);
        continue;
      }
      if (!waiting.node) waiting.node = scheduler.node_before(loaded.id, loaded.block);
      const auto adopted = waiting.node ? scheduler.adopt(loaded.id, *waiting.node, loaded.block,
                                                          waiting.pages, loaded.page.parts)
                                        : std::nullopt;
      if (!adopted) {
        give_up(loaded.id, waiting, scheduler);
        continue;
      }
      place = *adopted;
      waiting.node = place.node;
      waiting.adopted.push_back(place);
      ++waiting.fresh;
      restored_tokens_ += page_positions_;
    }
    for (size_t kind = 0; kind < place.fresh.size(); ++kind)
      if (place.fresh[kind] != kNoPage)
        pages.write(static_cast<PageKind>(kind), place.fresh[kind], (loaded.block + 1) * page_positions_,
                    loaded.page.part(static_cast<PageKind>(kind), store_->sizes()));
    moved += loaded.page.bytes.size();
  }
  const std::lock_guard lock(mutex);
  for (auto& [id, waiting] : waiting_) {
    if (waiting.given_up || (scheduler.knows(id) && now - waiting.since <= kWaitMax)) continue;
    if (scheduler.knows(id))
      log_warn("pages of a prompt did not come from disk within {}: they are computed",
               format_duration(kWaitMax));
    give_up(id, waiting, scheduler);
  }
}

void PrefixRestore::save(PrefixStore& store, const Scheduler& scheduler, const CachePages& pages,
                         const AdapterTable* adapters) {
  const PagePool& pool = scheduler.pages();
  struct Kept {
    PrefixStore::Name name;
    std::optional<uint32_t> parent;
    std::span<const int32_t> tokens;
  };
  std::unordered_map<uint32_t, Kept> kept;
  const auto root_of = [&](uint64_t number) -> std::optional<PrefixStore::Name> {
    const TextRoot& root = scheduler.root(number);
    const std::string adapter = adapters == nullptr ? "" : adapters->identity(root.adapter);
    if (root.adapter != 0 && adapter.empty()) return std::nullopt;  // nobody can name it later
    return store.root(root.owner, adapter);
  };
  for (const PagePool::Entry& entry : pool.published()) {
    if (entry.parent && !kept.contains(*entry.parent)) continue;
    const auto root = entry.parent ? std::nullopt : root_of(entry.owner);
    if (!entry.parent && !root) continue;
    const PrefixStore::Name before = entry.parent ? kept.at(*entry.parent).name : *root;
    kept[entry.page] = {PrefixStore::next(before, entry.tokens), entry.parent, entry.tokens};
  }
  // A page is worth nothing without those before it.
  std::vector<uint32_t> order;
  std::set<uint32_t> chosen;
  const auto choose = [&](uint32_t page) {
    std::vector<uint32_t> line;
    for (std::optional<uint32_t> at = page; at && !chosen.contains(*at); at = kept.at(*at).parent)
      line.push_back(*at);
    for (size_t i = line.size(); i > 0; --i) {
      chosen.insert(line[i - 1]);
      order.push_back(line[i - 1]);
    }
  };
  for (const uint32_t page : pool.by_recency())
    if (kept.contains(page)) choose(page);
  const auto part_of = [&](uint32_t page, PageKind kind) -> std::optional<uint32_t> {
    if (kind == PageKind::kFull) return page;
    if (store.sizes()[static_cast<size_t>(kind)] == 0) return std::nullopt;
    return pool.side(kind).find(page);
  };
  // What fits, then the last of it first: the store gives up first what was saved first.
  uint64_t bytes = 0;
  size_t count = 0;
  for (; count < order.size(); ++count) {
    for (size_t kind = 0; kind < graph::kPageKinds; ++kind)
      if (part_of(order[count], static_cast<PageKind>(kind))) bytes += store.sizes()[kind];
    bytes += 4096;  // head, tokens and what the file system adds
    if (bytes > store.bytes_max()) break;
  }
  const uint64_t since = store.now();
  const auto began = std::chrono::steady_clock::now();
  for (size_t i = count; i > 0; --i) {
    const uint32_t page = order[i - 1];
    const Kept& text = kept.at(page);
    PrefixStore::Page made;
    for (size_t kind = 0; kind < graph::kPageKinds; ++kind) {
      const auto from = part_of(page, static_cast<PageKind>(kind));
      if (!from) continue;
      const size_t at = made.bytes.size();
      made.parts |= 1u << kind;
      made.bytes.resize(at + store.sizes()[kind]);
      pages.read(static_cast<PageKind>(kind), *from, std::span(made.bytes).subspan(at));
    }
    if (const Status status = store.save(text.name, text.tokens, made, since); !status) {
      log_warn("beginnings of texts are not kept: {}", status.text());
      return;
    }
  }
  if (count > 0)
    log_info("{} tokens of texts are kept for the next start ({} in all, {})", count * pool.page_positions(),
             format_bytes(store.bytes()), format_duration(std::chrono::steady_clock::now() - began));
}

}  // namespace butterfly::runtime
