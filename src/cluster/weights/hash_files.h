// Manifests of files on this machine. Hashes are kept, so that a file that did not change is not read again.
#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "base/thread_pool.h"
#include "cluster/weights/manifest.h"

namespace butterfly::cluster {

struct FileToHash {
  std::filesystem::path path;
  uint64_t head_bytes = 0;
};

// Told of bytes as they are read; from any thread.
using HashProgress = std::function<void(uint64_t bytes)>;

struct HashCounts {
  uint64_t hashed_bytes = 0;
  uint64_t cached_bytes = 0;  // known from before
};

// Reads the files on the threads of `pool` and keeps the hashes in `cache` (a folder, made if needed; empty:
// nothing is kept), by path, size, time of change and inode. Throws Error kNotFound, kIo; kInvalidArgument
// for a file that is being written, or whose name no other node could use.
Manifest hash_files(const std::vector<FileToHash>& files, const std::filesystem::path& cache,
                    ThreadPool& pool, HashCounts* counts = nullptr, uint32_t chunk_bytes = kChunkBytes,
                    const HashProgress& progress = {});

// The files of a manifest, if `folder` holds them all with these bytes: sizes are compared first, so that
// only a likely file is read. Nothing if one is missing or differs.
std::optional<std::vector<std::filesystem::path>> find_whole_files(const Manifest& manifest,
                                                                   const std::filesystem::path& folder,
                                                                   const std::filesystem::path& cache,
                                                                   ThreadPool& pool,
                                                                   const HashProgress& progress = {});

}  // namespace butterfly::cluster
