// Chunks of one model on this node's disk: files with holes, and a note of what is in them.
#pragma once
#include <atomic>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/file_io.h"
#include "base/thread_pool.h"
#include "cluster/weights/chunk_source.h"
#include "cluster/weights/hash_files.h"

namespace butterfly::cluster {

// A folder <root>/<id> with the model's files under their own names, as large as the whole ones but with
// holes where chunks are missing (so they open like the model, and take the disk of what is there), the
// manifest, and a file with one byte for each chunk: 1 if it is here.
//
// A chunk is checked before it is written and noted after it is on the disk, so whatever stops the program, a
// noted chunk is right. Files that were changed by others since are read and checked again at open(), and
// wrong chunks are forgotten. Several processes may use one store at once: they write the same bytes and
// notes of one byte. Thread-safe.
class ChunkStore final : public ChunkSource {
 public:
  // kIo in words. `pool`, of which the caller is the owner now, checks what is there if it may have changed.
  static Result<std::shared_ptr<ChunkStore>> open(const std::filesystem::path& root, const Manifest& manifest,
                                                  ThreadPool& pool, const HashProgress& progress = {});
  ~ChunkStore() override;

  const Manifest& manifest() const override { return manifest_; }
  bool has(size_t chunk) const override { return present_[chunk].load(std::memory_order_acquire) != 0; }
  Status read(size_t chunk, uint32_t offset, std::span<std::byte> into) const override;
  std::filesystem::path path(size_t file) const override { return folder_ / manifest_.files()[file].name; }

  // kCorrupt when the bytes are not the chunk's; nothing is written then.
  Status put(size_t chunk, std::span<const std::byte> bytes);
  // What was put is on the disk and noted. put() does it by itself every kFlushChunks.
  Status flush();
  static constexpr size_t kFlushChunks = 16;

  ChunkSet missing(const ChunkSet& wanted) const;
  const std::filesystem::path& folder() const { return folder_; }

 private:
  ChunkStore(const std::filesystem::path& root, const Manifest& manifest);
  Status open_files(ThreadPool& pool, const HashProgress& progress);
  Status check_present(ThreadPool& pool, const HashProgress& progress);
  Status flush_locked();
  Status write_seal() const;

  Manifest manifest_;
  std::filesystem::path folder_;
  std::vector<FileHandle> files_;
  FileHandle notes_;
  FileHandle lock_;  // shared while the store is in use: it is not removed then
  std::vector<std::atomic<uint8_t>> present_;
  std::mutex mutex_;
  std::vector<size_t> written_;  // not yet noted
  bool changed_ = false;         // since the last seal
};

// The stored manifest of this id, if there is one.
std::optional<Manifest> stored_manifest(const std::filesystem::path& root, const Digest& id);

// Sees to it that `bytes` more fit below `root` and `reserve_bytes` stay free, if need be by removing stores
// of other models that nobody uses, longest unused first. kOutOfMemory with both figures when that is not
// enough.
Status make_disk_room(const std::filesystem::path& root, uint64_t bytes, uint64_t reserve_bytes,
                      const Digest& keep);

}  // namespace butterfly::cluster
