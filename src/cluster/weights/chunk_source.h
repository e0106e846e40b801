// Something that holds chunks of a model: whole files, or what a store has collected so far.
#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/result.h"
#include "cluster/weights/manifest.h"

namespace butterfly::cluster {

// Thread-safe.
class ChunkSource {
 public:
  virtual ~ChunkSource() = default;
  virtual const Manifest& manifest() const = 0;
  virtual bool has(size_t chunk) const = 0;
  // Fills `into` from byte `offset` of the chunk, which must have so many. kIo in words. What comes is not
  // checked again: whoever asked does.
  virtual Status read(size_t chunk, uint32_t offset, std::span<std::byte> into) const = 0;
  // Where file i of the manifest is, to be opened; the bytes of missing chunks are holes.
  virtual std::filesystem::path path(size_t file) const = 0;
};

// Files that are here, whole. They are opened anew for each read, so a file that was replaced gives wrong
// bytes to others, who notice, and never an old descriptor. Any thread may read.
class WholeFiles final : public ChunkSource {
 public:
  WholeFiles(Manifest manifest, std::vector<std::filesystem::path> paths);
  const Manifest& manifest() const override { return manifest_; }
  bool has(size_t) const override { return true; }
  Status read(size_t chunk, uint32_t offset, std::span<std::byte> into) const override;
  std::filesystem::path path(size_t file) const override { return paths_[file]; }

 private:
  Manifest manifest_;
  std::vector<std::filesystem::path> paths_;
};

// What a node offers to others, by the models' ids. Thread-safe.
class WeightLibrary {
 public:
  void add(std::shared_ptr<const ChunkSource> source);
  void remove(const Digest& id);
  std::shared_ptr<const ChunkSource> find(const Digest& id) const;  // null: not here

 private:
  mutable std::mutex mutex_;
  std::map<Digest, std::shared_ptr<const ChunkSource>> sources_;
};

}  // namespace butterfly::cluster
