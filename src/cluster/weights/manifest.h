// What a model's files are, chunk by chunk: enough to fetch any part of them from anybody and know it is
// right.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/weights/digest.h"

namespace butterfly::cluster {

inline constexpr uint32_t kChunkBytes = 4 << 20;

// Chunks by number: true where one is there, or wanted.
using ChunkSet = std::vector<bool>;

struct ManifestFile {
  std::string name;  // a plain file name, without a folder
  uint64_t bytes = 0;
  uint64_t head_bytes = 0;  // what every node needs, from the beginning: metadata, vocabulary
  friend bool operator==(const ManifestFile&, const ManifestFile&) = default;
};

// Files are cut into chunks of one size, the last of each is what is left; chunks are numbered through all
// files. Immutable. The SHA-256 of its bytes is the model's id, so whoever has the id can check a manifest,
// and whoever has the manifest can check a chunk.
class Manifest {
 public:
  // BF_CHECKs that the parts fit each other: for manifests made here.
  Manifest(std::vector<ManifestFile> files, uint32_t chunk_bytes, std::vector<Digest> chunks);
  // From a peer or a disk: kCorrupt in words for anything that is not exactly what to_bytes() makes.
  static Result<Manifest> parse(std::span<const std::byte> bytes);
  std::vector<std::byte> to_bytes() const;
  static constexpr size_t kBytesMax = size_t{32} << 20;  // of to_bytes(): models up to 4 TB

  const Digest& id() const { return id_; }
  std::span<const ManifestFile> files() const { return files_; }
  uint32_t chunk_bytes() const { return chunk_bytes_; }
  size_t chunk_count() const { return chunks_.size(); }
  const Digest& digest(size_t chunk) const { return chunks_[chunk]; }
  uint64_t total_bytes() const;

  struct Place {
    size_t file = 0;
    uint64_t offset = 0;
    uint32_t bytes = 0;
  };
  Place place(size_t chunk) const;

  ChunkSet none() const { return ChunkSet(chunk_count(), false); }
  ChunkSet all() const { return ChunkSet(chunk_count(), true); }
  // Marks the chunks that hold any of [begin, end) of a file.
  void mark(size_t file, uint64_t begin, uint64_t end, ChunkSet& set) const;
  ChunkSet heads() const;
  uint64_t bytes_of(const ChunkSet& set) const;

 private:
  std::vector<ManifestFile> files_;
  uint32_t chunk_bytes_;
  std::vector<Digest> chunks_;
  std::vector<size_t> first_chunk_;  // of each file, and the number of all
  Digest id_;
};

// Whether a file of a model may be called so: no folder, nothing hidden, nothing unprintable.
bool is_plain_file_name(std::string_view name);

}  // namespace butterfly::cluster
