#include "cluster/weights/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/checked.h"
#include "cluster/wire/wire_reader.h"
#include "cluster/wire/wire_writer.h"

namespace butterfly::cluster {
namespace {

constexpr uint32_t kMagic = 0x31574642;  // "BFW1"
constexpr uint32_t kFilesMax = 4096;
constexpr size_t kFileEntryBytesMin = 20;  // length of the name and two sizes
constexpr uint64_t kFileBytesMax = uint64_t{1} << 44;
constexpr uint32_t kChunkBytesMin = 512;  // small ones are for tests
constexpr size_t kFileNameMax = 255;

Status corrupt(std::string text) { return {Errc::kCorrupt, "[manifest] " + std::move(text)}; }

Status check_file(const ManifestFile& file) {
  if (!is_plain_file_name(file.name)) return corrupt(fmt::format("'{:.60}' is no file name", file.name));
  if (file.bytes > kFileBytesMax)
    return corrupt(fmt::format("{} has {} bytes, at most {}", file.name, file.bytes, kFileBytesMax));
  if (file.head_bytes > file.bytes)
    return corrupt(
        fmt::format("{} has a head of {} bytes and {} in all", file.name, file.head_bytes, file.bytes));
  return {};
}

}  // namespace

bool is_plain_file_name(std::string_view name) {
  if (name.empty() || name.size() > kFileNameMax || name.front() == '.') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return c != '/' && c != '\\' && static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
  });
}

Manifest::Manifest(std::vector<ManifestFile> files, uint32_t chunk_bytes, std::vector<Digest> chunks)
    : files_(std::move(files)), chunk_bytes_(chunk_bytes), chunks_(std::move(chunks)) {
  BF_CHECK(chunk_bytes_ >= kChunkBytesMin && chunk_bytes_ <= kChunkBytes) << chunk_bytes_;
  size_t count = 0;
  for (const ManifestFile& file : files_) {
    BF_CHECK(check_file(file).ok()) << check_file(file).text();
    first_chunk_.push_back(count);
    count += ceil_div(file.bytes, chunk_bytes_);
  }
  first_chunk_.push_back(count);
  BF_CHECK(count == chunks_.size()) << count << " chunks, " << chunks_.size() << " hashes";
  id_ = digest_of(to_bytes());
}

std::vector<std::byte> Manifest::to_bytes() const {
  WireWriter out(64 * files_.size() + sizeof(Digest) * chunks_.size());
  out.u32(kMagic);
  out.u32(chunk_bytes_);
  out.count(files_.size());
  for (const ManifestFile& file : files_) {
    out.text(file.name);
    out.u64(file.bytes);
    out.u64(file.head_bytes);
  }
  for (const Digest& digest : chunks_) out.raw(digest);
  return std::move(out).take();
}

Result<Manifest> Manifest::parse(std::span<const std::byte> bytes) {
  if (bytes.size() > kBytesMax) return corrupt(fmt::format("{} bytes, at most {}", bytes.size(), kBytesMax));
  WireReader in(bytes);
  if (in.u32() != kMagic) in.refuse("is no manifest");
  const uint32_t chunk_bytes = in.u32();
  if (chunk_bytes < kChunkBytesMin || chunk_bytes > kChunkBytes)
    in.refuse(fmt::format("chunks of {} bytes, expected {} to {}", chunk_bytes, kChunkBytesMin, kChunkBytes));
  std::vector<ManifestFile> files(in.count(kFilesMax, kFileEntryBytesMin));
  std::set<std::string> names;
  uint64_t chunk_count = 0;
  for (ManifestFile& file : files) {
    file.name = in.text(kFileNameMax);
    file.bytes = in.u64();
    file.head_bytes = in.u64();
    if (!in.ok()) break;
    if (const Status status = check_file(file); !status) in.refuse(status.text());
    if (!names.insert(file.name).second) in.refuse(fmt::format("{} comes twice", file.name));
    chunk_count += ceil_div(file.bytes, chunk_bytes);  // fits: few files, each far below 2^64
  }
  if (in.ok() && in.left() / sizeof(Digest) != chunk_count)
    in.refuse(fmt::format("{} chunks, {} bytes of hashes", chunk_count, in.left()));
  std::vector<Digest> chunks(in.ok() ? chunk_count : 0);
  for (Digest& digest : chunks) std::ranges::copy(in.raw(digest.size()), digest.begin());
  if (Status status = in.finish("manifest"); !status) return status;
  return Manifest(std::move(files), chunk_bytes, std::move(chunks));
}

uint64_t Manifest::total_bytes() const {
  uint64_t total = 0;
  for (const ManifestFile& file : files_) total += file.bytes;
  return total;
}

Manifest::Place Manifest::place(size_t chunk) const {
  BF_CHECK(chunk < chunk_count()) << chunk << " of " << chunk_count();
  const auto after = std::upper_bound(first_chunk_.begin(), first_chunk_.end(), chunk);
  const auto file = static_cast<size_t>(after - first_chunk_.begin()) - 1;
  const uint64_t offset = (chunk - first_chunk_[file]) * uint64_t{chunk_bytes_};
  return {file, offset, static_cast<uint32_t>(std::min<uint64_t>(chunk_bytes_, files_[file].bytes - offset))};
}

void Manifest::mark(size_t file, uint64_t begin, uint64_t end, ChunkSet& set) const {
  BF_CHECK(file < files_.size() && begin <= end && end <= files_[file].bytes && set.size() == chunk_count())
      << file << ": " << begin << " to " << end;
  if (begin == end) return;
  const size_t first = first_chunk_[file] + begin / chunk_bytes_;
  const size_t last = first_chunk_[file] + (end - 1) / chunk_bytes_;
  for (size_t chunk = first; chunk <= last; ++chunk) set[chunk] = true;
}

ChunkSet Manifest::heads() const {
  ChunkSet set = none();
  for (size_t i = 0; i < files_.size(); ++i) mark(i, 0, files_[i].head_bytes, set);
  return set;
}

uint64_t Manifest::bytes_of(const ChunkSet& set) const {
  uint64_t bytes = 0;
  for (size_t i = 0; i < set.size(); ++i)
    if (set[i]) bytes += place(i).bytes;
  return bytes;
}

}  // namespace butterfly::cluster
