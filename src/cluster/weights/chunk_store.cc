#include "cluster/weights/chunk_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
#include "cluster/wire/wire_writer.h"

namespace butterfly::cluster {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifestName = ".manifest";
constexpr const char* kNotesName = ".chunks";
constexpr const char* kSealName = ".seal";
constexpr const char* kLockName = ".lock";

// How the files looked when the notes were last written: equal now, and nobody else has touched them.
std::vector<std::byte> seal_of(const std::vector<FileHandle>& files) {
  WireWriter out;
  for (const FileHandle& file : files) {
    struct stat about {};
    if (::fstat(file.fd(), &about) != 0) return {};
    out.u64(about.st_ino);
    out.i64(about.st_size);
    out.i64(nanoseconds(about.st_mtim));
  }
  return std::move(out).take();
}

}  // namespace

ChunkStore::ChunkStore(const fs::path& root, const Manifest& manifest)
    : manifest_(manifest), folder_(root / digest_to_hex(manifest.id())), present_(manifest.chunk_count()) {}

ChunkStore::~ChunkStore() {
  if (const Status status = flush(); !status) log_warn("{}", status.text());
}

Result<std::shared_ptr<ChunkStore>> ChunkStore::open(const fs::path& root, const Manifest& manifest,
                                                     ThreadPool& pool, const HashProgress& progress) {
  std::shared_ptr<ChunkStore> store(new ChunkStore(root, manifest));
  std::error_code error;
  fs::create_directories(store->folder_, error);
  if (error)
    return Status(Errc::kIo, fmt::format("{}: cannot create: {}", store->folder_.string(), error.message()));
  if (Status status = store->open_files(pool, progress); !status) return status;
  return store;
}

Status ChunkStore::open_files(ThreadPool& pool, const HashProgress& progress) {
  lock_ = FileHandle(folder_ / kLockName, O_RDWR | O_CREAT);
  if (!lock_.open()) return lock_.failed("open");
  if (::flock(lock_.fd(), LOCK_SH) != 0) return lock_.failed("lock");
  ::futimens(lock_.fd(), nullptr);  // last used now
  if (!fs::exists(folder_ / kManifestName))
    if (Status status = replace_file(folder_ / kManifestName, manifest_.to_bytes()); !status) return status;
  for (size_t i = 0; i < manifest_.files().size(); ++i) {
    files_.emplace_back(path(i), O_RDWR | O_CREAT);
    if (!files_.back().open()) return files_.back().failed("open");
  }
  // Before anything here changes a file.
  const auto seal = read_small_file(folder_ / kSealName, 24 * files_.size());
  const bool untouched = seal && *seal == seal_of(files_);
  for (size_t i = 0; i < files_.size(); ++i)
    if (Status status = files_[i].resize(manifest_.files()[i].bytes); !status) return status;
  notes_ = FileHandle(folder_ / kNotesName, O_RDWR | O_CREAT);
  if (!notes_.open()) return notes_.failed("open");
  if (Status status = notes_.resize(present_.size()); !status) return status;
  std::vector<std::byte> notes(present_.size());
  if (Status status = notes_.read_at(0, notes); !status) return status;
  for (size_t i = 0; i < notes.size(); ++i) present_[i] = notes[i] == std::byte{1} ? 1 : 0;
  return untouched ? Status() : check_present(pool, progress);
}

Status ChunkStore::check_present(ThreadPool& pool, const HashProgress& progress) {
  std::atomic<size_t> next{0}, wrong{0};
  pool.run([&](size_t) {
    std::vector<std::byte> bytes(manifest_.chunk_bytes());
    for (size_t i; (i = next.fetch_add(1)) < present_.size();) {
      if (!has(i)) continue;
      const auto chunk = std::span(bytes).first(manifest_.place(i).bytes);
      const bool right = read(i, 0, chunk).ok() && digest_of(chunk) == manifest_.digest(i);
      if (progress) progress(chunk.size());
      if (right) continue;
      present_[i] = 0;
      ++wrong;
    }
  });
  if (wrong > 0) {
    log_warn("{}: {} chunks are not what they were; they are fetched again", folder_.string(), wrong.load());
    for (size_t i = 0; i < present_.size(); ++i)
      if (!has(i)) {
        const std::byte none{0};
        if (Status status = notes_.write_at(i, {&none, 1}); !status) return status;
      }
  }
  return write_seal();
}

Status ChunkStore::read(size_t chunk, uint32_t offset, std::span<std::byte> into) const {
  const Manifest::Place place = manifest_.place(chunk);
  BF_CHECK(offset <= place.bytes && into.size() <= place.bytes - offset)
      << offset << ", " << into.size() << ", " << place.bytes;
  return files_[place.file].read_at(place.offset + offset, into);
}

Status ChunkStore::put(size_t chunk, std::span<const std::byte> bytes) {
  const Manifest::Place place = manifest_.place(chunk);
  if (bytes.size() != place.bytes || digest_of(bytes) != manifest_.digest(chunk))
    return {Errc::kCorrupt,
            fmt::format("{}: chunk {} is not the one with hash {:.12}", manifest_.files()[place.file].name,
                        chunk, digest_to_hex(manifest_.digest(chunk)))};
  if (Status status = files_[place.file].write_at(place.offset, bytes); !status) return status;
  const std::lock_guard lock(mutex_);
  written_.push_back(chunk);
  changed_ = true;
  present_[chunk].store(1, std::memory_order_release);
  return written_.size() < kFlushChunks ? Status() : flush_locked();
}

Status ChunkStore::flush() {
  const std::lock_guard lock(mutex_);
  if (Status status = flush_locked(); !status) return status;
  if (!std::exchange(changed_, false)) return {};
  return write_seal();
}

Status ChunkStore::flush_locked() {
  if (written_.empty()) return {};
  for (const FileHandle& file : files_)
    if (Status status = file.sync(); !status) return status;
  const std::byte here{1};
  for (const size_t chunk : written_)
    if (Status status = notes_.write_at(chunk, {&here, 1}); !status) return status;
  written_.clear();
  return notes_.sync();
}

Status ChunkStore::write_seal() const { return replace_file(folder_ / kSealName, seal_of(files_)); }

ChunkSet ChunkStore::missing(const ChunkSet& wanted) const {
  ChunkSet set = wanted;
  for (size_t i = 0; i < set.size(); ++i)
    if (has(i)) set[i] = false;
  return set;
}

std::optional<Manifest> stored_manifest(const fs::path& root, const Digest& id) {
  const auto bytes = read_small_file(root / digest_to_hex(id) / kManifestName, Manifest::kBytesMax);
  if (!bytes || digest_of(*bytes) != id) return std::nullopt;
  auto manifest = Manifest::parse(*bytes);
  if (!manifest) return std::nullopt;
  return std::move(*manifest);
}

namespace {

// A store nobody uses, or null: others hold its lock.
struct OldStore {
  fs::path folder;
  fs::file_time_type used;
};

std::optional<OldStore> oldest_store(const fs::path& root, const Digest& keep) {
  std::optional<OldStore> oldest;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    const auto id = digest_from_hex(entry.path().filename().string());
    if (!id || *id == keep) continue;
    const fs::path lock = entry.path() / kLockName;
    const auto used = fs::last_write_time(lock, error);
    if (error || (oldest && oldest->used <= used)) continue;
    const FileHandle held(lock, O_RDWR);
    if (held.open() && ::flock(held.fd(), LOCK_EX | LOCK_NB) == 0) oldest = {entry.path(), used};
  }
  return oldest;
}

}  // namespace

Status make_disk_room(const fs::path& root, uint64_t bytes, uint64_t reserve_bytes, const Digest& keep) {
  while (true) {
    std::error_code error;
    const fs::space_info space = fs::space(root, error);
    if (error) return {Errc::kIo, fmt::format("{}: {}", root.string(), error.message())};
    if (space.available >= reserve_bytes && space.available - reserve_bytes >= bytes) return {};
    const auto old = oldest_store(root, keep);
    if (!old)
      return {Errc::kOutOfMemory,
              fmt::format("{}: the model's chunks need {} bytes; {} are free, of which {} stay free",
                          root.string(), bytes, space.available, reserve_bytes)};
    log_info("{}: removed to make room", old->folder.string());
    fs::remove_all(old->folder, error);
    if (error) return {Errc::kIo, fmt::format("{}: {}", old->folder.string(), error.message())};
  }
}

}  // namespace butterfly::cluster
