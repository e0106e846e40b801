#include "cluster/weights/chunk_source.h"

#include <fcntl.h>

#include "base/check.h"
#include "base/file_io.h"

namespace butterfly::cluster {

WholeFiles::WholeFiles(Manifest manifest, std::vector<std::filesystem::path> paths)
    : manifest_(std::move(manifest)), paths_(std::move(paths)) {
  BF_CHECK(paths_.size() == manifest_.files().size()) << paths_.size() << " paths";
}

Status WholeFiles::read(size_t chunk, uint32_t offset, std::span<std::byte> into) const {
  const Manifest::Place place = manifest_.place(chunk);
  BF_CHECK(offset <= place.bytes && into.size() <= place.bytes - offset)
      << offset << ", " << into.size() << ", " << place.bytes;
  const FileHandle file(paths_[place.file], O_RDONLY);
  if (!file.open()) return file.failed("open");
  return file.read_at(place.offset + offset, into);
}

void WeightLibrary::add(std::shared_ptr<const ChunkSource> source) {
  const std::lock_guard lock(mutex_);
  sources_[source->manifest().id()] = std::move(source);
}

void WeightLibrary::remove(const Digest& id) {
  const std::lock_guard lock(mutex_);
  sources_.erase(id);
}

std::shared_ptr<const ChunkSource> WeightLibrary::find(const Digest& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = sources_.find(id);
  return found == sources_.end() ? nullptr : found->second;
}

}  // namespace butterfly::cluster
