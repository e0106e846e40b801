// A model's files as nodes exchange them: which files, which chunks a part of the chain needs, where they
// come from.
#pragma once
#include <filesystem>
#include <memory>
#include <vector>

#include "cluster/weights/chunk_source.h"
#include "cluster/weights/hash_files.h"
#include "cluster/weights/weight_fetch.h"
#include "model/arch/layer_range.h"
#include "model/formats/model_file.h"

namespace butterfly::runtime {

// All files of a model, with what every node needs of each: of GGUF the metadata, of other formats all of it.
std::vector<cluster::FileToHash> files_to_share(const model::ModelFile& file);

// All files of an adapter (a GGUF file, or a folder that PEFT wrote): everybody needs all of them.
std::vector<cluster::FileToHash> adapter_files(const std::filesystem::path& path);

// What an adapter takes in memory at most, on a node that has all layers: floats, of what may be halves.
uint64_t adapter_bytes(const std::filesystem::path& path);

// What open_model() or open_adapter() takes to open the files of a manifest where `source` has them.
std::filesystem::path model_path(const cluster::ChunkSource& source);

// Chunks with the heads and the tensors of this part. `file` is opened from the manifest's files, of which
// only the heads need be there.
cluster::ChunkSet chunks_of_range(const cluster::Manifest& manifest, const model::ModelFile& file,
                                  const model::LayerRange& range);

// Where a node looks for weights and keeps them.
struct WeightPlaces {
  std::filesystem::path cache;                 // hashes and chunks
  std::vector<std::filesystem::path> folders;  // with models that may be the ones
  uint64_t disk_reserve_bytes = uint64_t{1} << 30;
};
// $XDG_CACHE_HOME/butterfly, or ~/.cache/butterfly.
std::filesystem::path default_weight_cache();

struct PreparedWeights {
  std::shared_ptr<const cluster::ChunkSource> source;
  bool whole_file = false;  // found on this machine
  cluster::FetchReport fetched;
};

// Sees to it that the weights of pieces [begin, end) (see range_of_pieces) are on this machine: a file with
// the same hash if there is one, else chunks, fetched from the peers as far as they are missing. Throws
// Error: what the peers said, a full disk, kCancelled.
PreparedWeights prepare_weights(const cluster::Digest& model, size_t begin, size_t end,
                                const std::vector<cluster::WeightPeer>& peers, const WeightPlaces& places,
                                ThreadPool& pool, const cluster::FetchOptions& options);

// The same for all bytes of the files with this id.
PreparedWeights prepare_files(const cluster::Digest& id, const std::vector<cluster::WeightPeer>& peers,
                              const WeightPlaces& places, ThreadPool& pool,
                              const cluster::FetchOptions& options);

}  // namespace butterfly::runtime
