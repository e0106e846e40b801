// Beginnings of texts on disk: pages of the cache under the hash of what they hold, so that they outlive the
// process that computed them.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/sha256.h"
#include "graph/kv_step.h"

namespace butterfly::runtime {

struct PrefixStoreOptions {
  std::filesystem::path folder;  // made if it is missing; only its owner may write there
  uint64_t bytes_max = 0;        // of all files
  // All that decides the bits of a page besides its tokens: model, adapters, numerics id, type of the cache.
  std::string identity;
};

// A file holds one page: its positions through all layers, and, where it has them, the page of a window and
// the state of recurrent layers behind it. Its name is the hash of (identity, owner, all tokens up to its
// end), so nothing is found that is not what is asked for, and one owner's texts are not another's.
//
// What is read is input: a file has exactly the size that the reader computes, repeats the name and tokens
// that the reader expects, and ends with the hash of all of it; another one is removed. Thread-safe. Several
// stores, also of several processes, may have one folder: each counts what it has seen.
class PrefixStore {
 public:
  using Name = Sha256;
  // Bytes of the parts of a page, by kind; 0: the model has none of the kind. All pages have a part of the
  // first kind, also where it has no bytes because all layers see windows.
  using Sizes = std::array<size_t, graph::kPageKinds>;

  // Throws Error: kInvalidArgument for a folder that others may write, kIo.
  PrefixStore(PrefixStoreOptions options, const Sizes& sizes);

  // `adapter`: the identity of what was added to the model; empty: nothing.
  Name root(uint64_t owner, const std::string& adapter = {}) const;
  static Name next(const Name& before, std::span<const int32_t> tokens);

  // Which parts of the page are here, as bits 1 << kind; 0: no such page.
  uint32_t parts(const Name& name) const;
  // How many pages, from the first on, of this text are here, up to `pages_max`.
  size_t count(uint64_t owner, std::span<const int32_t> tokens, size_t page_positions,
               size_t pages_max) const;
  // The same, but only as far as a text can go on behind it: the last one has the state, and the last ones
  // all of the window (in positions), if there are such.
  size_t usable(const Name& root, std::span<const int32_t> tokens, size_t page_positions, size_t pages_max,
                size_t window) const;

  struct Page {
    uint32_t parts = 0;
    std::vector<std::byte> bytes;  // the parts that there are, one behind the other
    // The bytes of a part that is there.
    std::span<const std::byte> part(graph::PageKind kind, const Sizes& sizes) const;
  };
  // kNotFound, kCorrupt (and the file is gone) or kIo.
  Result<Page> load(const Name& name, std::span<const int32_t> tokens);
  // The pages of a text were used, from its first on: its end is given up before its beginning.
  void used(std::span<const Name> text);
  // Over an older one that has fewer parts; one that has them all is as if it were new. The last one saved
  // is the last to go, so save a text's end before its beginning. Older ones make room; kQueueFull when all
  // of bytes_max is newer than `since`, a number of now().
  Status save(const Name& name, std::span<const int32_t> tokens, const Page& page, uint64_t since);
  uint64_t now() const;

  uint64_t bytes() const;
  uint64_t bytes_max() const { return options_.bytes_max; }
  const Sizes& sizes() const { return sizes_; }

 private:
  struct Entry {
    uint32_t parts = 0;
    uint64_t bytes = 0;
    uint64_t used = 0;
  };
  std::filesystem::path path_of(const Name& name, uint32_t parts) const;
  size_t file_bytes(size_t tokens, uint32_t parts) const;
  std::vector<std::byte> head(const Name& name, std::span<const int32_t> tokens, uint32_t parts) const;
  void scan();
  void remove(const Name& name);                   // with the mutex
  bool make_room(uint64_t bytes, uint64_t since);  // with the mutex
  void touch(const Name& name, Entry& entry);      // with the mutex

  const PrefixStoreOptions options_;
  const Sizes sizes_;
  mutable std::mutex mutex_;
  std::map<Name, Entry> entries_;  // of all models in the folder: names do not tell
  uint64_t bytes_ = 0;
  uint64_t next_use_ = 1;
  int64_t last_time_ = 0;  // given to a file
};

}  // namespace butterfly::runtime
