#include "runtime/nodes/model_weights.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "base/error.h"
#include "base/log.h"
#include "base/private_folder.h"
#include "cluster/weights/chunk_store.h"
#include "model/adapter/adapter.h"
#include "model/arch/model_config.h"

namespace butterfly::runtime {
namespace {

namespace fs = std::filesystem;
using cluster::ChunkSet;
using cluster::ChunkSource;
using cluster::Manifest;

// Of folders: a model has the first one, an adapter the second.
constexpr std::string_view kFolderMarks[] = {"config.json", model::kPeftConfig};

// Endings of files that belong to a model in a folder.
bool belongs_to_model(const fs::path& path) {
  const std::string ending = path.extension().string();
  return cluster::is_plain_file_name(path.filename().string()) &&
         (ending == ".json" || ending == ".safetensors" || ending == ".model" || ending == ".txt" ||
          ending == ".jinja");
}

// Of the file that holds the tensor's bytes; SIZE_MAX for tensors that are put together.
size_t file_of(const model::ModelFile& file, const model::NamedTensor& tensor) {
  const Tensor& there = tensor.stored ? tensor.stored : tensor.view;
  if (!there) return SIZE_MAX;
  for (size_t i = 0; i < file.files().size(); ++i) {
    const auto bytes = file.files()[i]->bytes();
    if (there.raw() >= bytes.data() && there.raw() < bytes.data() + bytes.size()) return i;
  }
  return SIZE_MAX;
}

bool shares_parts(const model::ModelFile& file) { return file.format().starts_with("gguf"); }

}  // namespace

std::vector<cluster::FileToHash> files_to_share(const model::ModelFile& file) {
  std::vector<cluster::FileToHash> files;
  if (fs::is_directory(file.path())) {
    for (const auto& entry : fs::directory_iterator(file.path()))
      if (entry.is_regular_file() && belongs_to_model(entry.path()))
        files.push_back({entry.path(), entry.file_size()});
    std::ranges::sort(files, {}, &cluster::FileToHash::path);
    return files;
  }
  for (const auto& mapped : file.files()) files.push_back({mapped->path(), mapped->bytes().size()});
  if (!shares_parts(file)) return files;
  for (const model::NamedTensor& tensor : file.tensors())
    if (const size_t i = file_of(file, tensor); i < files.size())
      files[i].head_bytes = std::min(files[i].head_bytes, tensor.offset);
  return files;
}

std::vector<cluster::FileToHash> adapter_files(const fs::path& path) {
  if (!fs::is_directory(path)) return {{path, fs::file_size(path)}};
  std::vector<cluster::FileToHash> files;
  for (const char* name : {model::kPeftConfig, model::kPeftWeights})
    files.push_back({path / name, fs::file_size(path / name)});
  return files;
}

uint64_t adapter_bytes(const fs::path& path) {
  uint64_t bytes = 0;
  for (const cluster::FileToHash& file : adapter_files(path)) bytes += 2 * file.head_bytes;
  return bytes;
}

fs::path model_path(const ChunkSource& source) {
  const auto files = source.manifest().files();
  for (size_t i = 0; i < files.size(); ++i)
    if (std::ranges::find(kFolderMarks, files[i].name) != std::end(kFolderMarks))
      return source.path(i).parent_path();
  return source.path(0);
}

ChunkSet chunks_of_range(const Manifest& manifest, const model::ModelFile& file,
                         const model::LayerRange& range) {
  ChunkSet set = manifest.heads();
  if (!shares_parts(file)) return set;  // the heads are everything
  const size_t layers = model::read_config(file).layers;
  for (const std::string& name : model::tensors_of_range(range, layers, file)) {
    const model::NamedTensor& tensor = *file.find(name);
    const size_t index = file_of(file, tensor);
    if (index == SIZE_MAX)
      fail(Errc::kUnsupported, "{}: tensor {} lies in no file", file.path().string(), name);
    const std::string part = file.files()[index]->path().filename().string();
    const auto entries = manifest.files();
    const auto entry = std::ranges::find(entries, part, &cluster::ManifestFile::name);
    if (entry == entries.end()) fail(Errc::kCorrupt, "{}: is not in the model's manifest", part);
    manifest.mark(static_cast<size_t>(entry - entries.begin()), tensor.offset, tensor.offset + tensor.bytes,
                  set);
  }
  return set;
}

fs::path default_weight_cache() {
  if (const char* folder = std::getenv("XDG_CACHE_HOME"); folder != nullptr && *folder == '/')
    return fs::path(folder) / "butterfly";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/')
    return fs::path(home) / ".cache" / "butterfly";
  // A name that others can guess: what lies there is used only if nobody else could have put it there.
  const fs::path folder = fs::temp_directory_path() / fmt::format("butterfly-cache-{}", ::getuid());
  make_private_folder(folder);
  return folder;
}

namespace {

// Fetches what is missing of `wanted`, if the disk has room for it.
void complete(cluster::ChunkStore& store, const ChunkSet& wanted,
              const std::vector<cluster::WeightPeer>& peers, const WeightPlaces& places,
              const cluster::FetchOptions& options, cluster::FetchReport& sum) {
  const Manifest& manifest = store.manifest();
  const uint64_t missing = manifest.bytes_of(store.missing(wanted));
  if (missing == 0) return;
  cluster::make_disk_room(store.folder().parent_path(), missing, places.disk_reserve_bytes, manifest.id())
      .or_throw();
  const cluster::FetchReport report = cluster::fetch_chunks(store, wanted, peers, options).or_throw();
  sum.chunks += report.chunks;
  sum.bytes += report.bytes;
  sum.wrong += report.wrong;
  sum.peers = report.peers;
}

}  // namespace

namespace {

// Whole files with these bytes, or a store for their chunks, which may have none yet.
struct Found {
  std::shared_ptr<const ChunkSource> whole;
  std::shared_ptr<cluster::ChunkStore> store;
};

Found find_files(const cluster::Digest& id, const std::vector<cluster::WeightPeer>& peers,
                 const WeightPlaces& places, ThreadPool& pool, const cluster::FetchOptions& options) {
  const fs::path chunks = places.cache / "chunks", hashes = places.cache / "hashes";
  auto known = cluster::stored_manifest(chunks, id);
  const Manifest manifest =
      known ? std::move(*known) : cluster::fetch_manifest(id, peers, options).or_throw();
  // What is read to see whether it is right is progress too.
  std::atomic<uint64_t> checked{0};
  const cluster::HashProgress hashed = [&](uint64_t bytes) {
    if (options.progress) options.progress(checked += bytes, manifest.total_bytes());
  };
  for (const fs::path& folder : places.folders)
    if (auto paths = cluster::find_whole_files(manifest, folder, hashes, pool, hashed))
      return {std::make_shared<cluster::WholeFiles>(manifest, std::move(*paths)), nullptr};
  return {nullptr, cluster::ChunkStore::open(chunks, manifest, pool, hashed).or_throw()};
}

}  // namespace

PreparedWeights prepare_weights(const cluster::Digest& model, size_t begin, size_t end,
                                const std::vector<cluster::WeightPeer>& peers, const WeightPlaces& places,
                                ThreadPool& pool, const cluster::FetchOptions& options) {
  const Found found = find_files(model, peers, places, pool, options);
  if (found.whole != nullptr) return {.source = found.whole, .whole_file = true, .fetched = {}};
  const Manifest& manifest = found.store->manifest();
  PreparedWeights prepared{.source = found.store, .whole_file = false, .fetched = {}};
  complete(*found.store, manifest.heads(), peers, places, options, prepared.fetched);
  const model::ModelFile file = model::open_model(model_path(*found.store));
  const size_t layers = model::read_config(file).layers;
  complete(*found.store, chunks_of_range(manifest, file, model::range_of_pieces(begin, end, layers)), peers,
           places, options, prepared.fetched);
  return prepared;
}

PreparedWeights prepare_files(const cluster::Digest& id, const std::vector<cluster::WeightPeer>& peers,
                              const WeightPlaces& places, ThreadPool& pool,
                              const cluster::FetchOptions& options) {
  const Found found = find_files(id, peers, places, pool, options);
  if (found.whole != nullptr) return {.source = found.whole, .whole_file = true, .fetched = {}};
  PreparedWeights prepared{.source = found.store, .whole_file = false, .fetched = {}};
  complete(*found.store, found.store->manifest().all(), peers, places, options, prepared.fetched);
  return prepared;
}

}  // namespace butterfly::runtime
