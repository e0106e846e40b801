#include "cluster/weights/hash_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <time.h>

#include <atomic>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"
#include "base/file_io.h"
#include "base/log.h"

namespace butterfly::cluster {
namespace {

namespace fs = std::filesystem;

// A file changed so recently may change again without its time moving on.
constexpr int64_t kSettledSeconds = 2;

// What tells one state of a file from another.
struct FileState {
  uint64_t bytes = 0, inode = 0, device = 0;
  int64_t changed_ns = 0, status_ns = 0;
  friend bool operator==(const FileState&, const FileState&) = default;
};

FileState state_of(const FileHandle& file) {
  struct stat about {};
  if (::fstat(file.fd(), &about) != 0) file.failed("look at").or_throw();
  if (!S_ISREG(about.st_mode)) fail(Errc::kIo, "{}: is not a regular file", file.path().string());
  return {static_cast<uint64_t>(about.st_size), about.st_ino, about.st_dev, nanoseconds(about.st_mtim),
          nanoseconds(about.st_ctim)};
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

fs::path cache_file(const fs::path& cache, const fs::path& path, const FileState& state,
                    uint32_t chunk_bytes) {
  const std::string key =
      fmt::format("{}\n{} {} {} {} {} {}", fs::absolute(path).lexically_normal().string(), state.bytes,
                  state.inode, state.device, state.changed_ns, state.status_ns, chunk_bytes);
  return cache / (digest_to_hex(digest_of(bytes_of(key))) + ".hashes");
}

// Kept as the hashes and their own hash behind them: a torn or edited file is as good as none.
std::optional<std::vector<Digest>> read_cache(const fs::path& file, size_t count) {
  const auto bytes = read_small_file(file, (count + 1) * sizeof(Digest));
  if (!bytes || bytes->size() != (count + 1) * sizeof(Digest)) return std::nullopt;
  const std::span<const std::byte> hashes(bytes->data(), count * sizeof(Digest));
  const Digest check = digest_of(hashes);
  if (std::memcmp(check.data(), bytes->data() + hashes.size(), sizeof check) != 0) return std::nullopt;
  std::vector<Digest> out(count);
  if (count > 0) std::memcpy(out.data(), hashes.data(), hashes.size());
  return out;
}

void write_cache(const fs::path& file, const std::vector<Digest>& hashes) {
  std::vector<std::byte> bytes((hashes.size() + 1) * sizeof(Digest));
  const size_t size = hashes.size() * sizeof(Digest);
  if (size > 0) std::memcpy(bytes.data(), hashes.data(), size);
  const Digest check = digest_of({bytes.data(), size});
  std::memcpy(bytes.data() + size, check.data(), sizeof check);
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  if (const Status status = replace_file(file, bytes); !status)
    log_warn("hashes are not kept: {}", status.text());  // only time is lost
}

std::vector<Digest> hash_file(const FileHandle& file, uint64_t size, uint32_t chunk_bytes, ThreadPool& pool,
                              const HashProgress& progress) {
  std::vector<Digest> hashes(ceil_div(size, chunk_bytes));
  std::atomic<size_t> next{0};
  pool.run([&](size_t) {
    std::vector<std::byte> chunk(std::min<uint64_t>(chunk_bytes, size));
    for (size_t i; (i = next.fetch_add(1)) < hashes.size();) {
      const uint64_t offset = i * uint64_t{chunk_bytes};
      const auto part = std::span(chunk).first(std::min<uint64_t>(chunk_bytes, size - offset));
      file.read_at(offset, part).or_throw();
      hashes[i] = digest_of(part);
      if (progress) progress(part.size());
    }
  });
  return hashes;
}

std::vector<Digest> hashes_of(const fs::path& path, const fs::path& cache, ThreadPool& pool,
                              uint32_t chunk_bytes, uint64_t& size, HashCounts& counts,
                              const HashProgress& progress) {
  const FileHandle file(path, O_RDONLY);
  if (!file.open()) file.failed("open").or_throw();
  const FileState state = state_of(file);
  size = state.bytes;
  const fs::path kept = cache.empty() ? fs::path() : cache_file(cache, path, state, chunk_bytes);
  if (!kept.empty())
    if (auto known = read_cache(kept, ceil_div(size, chunk_bytes))) {
      counts.cached_bytes += size;
      return std::move(*known);
    }
  std::vector<Digest> hashes = hash_file(file, size, chunk_bytes, pool, progress);
  counts.hashed_bytes += size;
  if (state_of(file) != state)
    fail(Errc::kInvalidArgument, "{}: changed while it was read; try again when it is whole", path.string());
  if (!kept.empty() && ::time(nullptr) - state.changed_ns / 1'000'000'000 >= kSettledSeconds)
    write_cache(kept, hashes);
  return hashes;
}

}  // namespace

Manifest hash_files(const std::vector<FileToHash>& files, const fs::path& cache, ThreadPool& pool,
                    HashCounts* counts, uint32_t chunk_bytes, const HashProgress& progress) {
  HashCounts counted;
  std::vector<ManifestFile> entries;
  std::vector<Digest> chunks;
  for (const FileToHash& file : files) {
    ManifestFile entry{.name = file.path.filename().string(), .head_bytes = file.head_bytes};
    if (!is_plain_file_name(entry.name))
      fail(Errc::kInvalidArgument, "{}: other nodes could not have a file of this name", file.path.string());
    const std::vector<Digest> hashes =
        hashes_of(file.path, cache, pool, chunk_bytes, entry.bytes, counted, progress);
    if (entry.head_bytes > entry.bytes)
      fail(Errc::kInvalidArgument, "{}: has {} bytes, its head {}", file.path.string(), entry.bytes,
           entry.head_bytes);
    chunks.insert(chunks.end(), hashes.begin(), hashes.end());
    entries.push_back(std::move(entry));
  }
  if (counts != nullptr) *counts = counted;
  return Manifest(std::move(entries), chunk_bytes, std::move(chunks));
}

std::optional<std::vector<fs::path>> find_whole_files(const Manifest& manifest, const fs::path& folder,
                                                      const fs::path& cache, ThreadPool& pool,
                                                      const HashProgress& progress) {
  std::vector<FileToHash> files;
  std::vector<fs::path> paths;
  for (const ManifestFile& file : manifest.files()) {
    const fs::path path = folder / file.name;
    std::error_code error;
    if (fs::file_size(path, error) != file.bytes || error) return std::nullopt;
    files.push_back({path, file.head_bytes});
    paths.push_back(path);
  }
  try {
    if (hash_files(files, cache, pool, nullptr, manifest.chunk_bytes(), progress).id() == manifest.id())
      return paths;
  } catch (const Error& error) {
    log_info("{}", error.what());
  }
  return std::nullopt;
}

}  // namespace butterfly::cluster
