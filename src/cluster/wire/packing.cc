#include "cluster/wire/packing.h"

#include <fmt/format.h>
#include <lz4.h>
#include <lz4frame.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace butterfly::cluster {
namespace {

// Planes are cut into parts, so that what is read, sorted by planes and compressed stays in the cache; a part
// is preceded by the lengths of its planes' codes. A multiple of every number of planes.
constexpr size_t kPart = size_t{840} << 10;
constexpr size_t kLengthBytes = sizeof(uint32_t);

size_t parts_of(size_t bytes) { return (bytes + kPart - 1) / kPart; }

// Of `count` elements; where plane p begins in `sorted` is p * count.
void sort_planes(const std::byte* from, size_t planes, size_t count, std::byte* sorted) {
  for (size_t p = 0; p < planes; ++p)
    for (size_t i = 0; i < count; ++i) sorted[p * count + i] = from[i * planes + p];
}
void join_planes(const std::byte* sorted, size_t planes, size_t count, std::byte* to) {
  for (size_t p = 0; p < planes; ++p)
    for (size_t i = 0; i < count; ++i) to[i * planes + p] = sorted[p * count + i];
}

// A frame takes its own bound of room while it is made, so it is made apart where `to` has less.
size_t compress_frame(std::span<const std::byte> from, std::span<std::byte> to) {
  LZ4F_preferences_t how = LZ4F_INIT_PREFERENCES;
  how.frameInfo.contentChecksumFlag = LZ4F_contentChecksumEnabled;
  PooledArray<std::byte> room(LZ4F_compressFrameBound(from.size(), &how));
  const size_t size = LZ4F_compressFrame(room.data(), room.size(), from.data(), from.size(), &how);
  if (LZ4F_isError(size) != 0 || size >= from.size()) return 0;
  std::memcpy(to.data(), room.data(), size);
  return size;
}

bool decompress_frame(std::span<const std::byte> from, std::span<std::byte> to) {
  LZ4F_dctx* context = nullptr;
  if (LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION)) != 0) return false;
  size_t read = 0, written = 0, wanted = 1;
  // Every call takes or gives something, or it is over.
  while (wanted != 0) {
    size_t in = from.size() - read, out = to.size() - written;
    wanted = LZ4F_decompress(context, to.data() + written, &out, from.data() + read, &in, nullptr);
    if (LZ4F_isError(wanted) != 0 || (in == 0 && out == 0)) break;
    read += in;
    written += out;
  }
  (void)LZ4F_freeDecompressionContext(context);
  return wanted == 0 && read == from.size() && written == to.size();
}

// Shorter than `from`, or 0.
size_t compress(Packing packing, std::span<const std::byte> from, std::span<std::byte> to) {
  const auto* source = reinterpret_cast<const char*>(from.data());
  auto* target = reinterpret_cast<char*>(to.data());
  if (packing == Packing::kLz4) {
    const int size = LZ4_compress_default(source, target, static_cast<int>(from.size()),
                                          static_cast<int>(from.size()) - 1);
    return size <= 0 ? 0 : static_cast<size_t>(size);
  }
  if (packing == Packing::kLz4Frame) return compress_frame(from, to);
  const size_t size = ZSTD_compress(target, from.size() - 1, source, from.size(), 1);
  return ZSTD_isError(size) != 0 ? 0 : size;
}

bool decompress(Packing packing, std::span<const std::byte> from, std::span<std::byte> to) {
  const auto* source = reinterpret_cast<const char*>(from.data());
  auto* target = reinterpret_cast<char*>(to.data());
  if (packing == Packing::kLz4)
    return LZ4_decompress_safe(source, target, static_cast<int>(from.size()), static_cast<int>(to.size())) ==
           static_cast<int>(to.size());
  if (packing == Packing::kLz4Frame) return decompress_frame(from, to);
  return ZSTD_decompress(target, to.size(), source, from.size()) == to.size();
}

// Walks over pieces that lie apart as if they were one.
template <typename Byte>
class PieceCursor {
 public:
  explicit PieceCursor(std::span<const std::span<Byte>> pieces) : pieces_(pieces) {}
  // copy(piece, at): a run of the next `bytes`, which begins `at` bytes in.
  template <typename Copy>
  void next(size_t bytes, Copy copy) {
    for (size_t done = 0; done < bytes;) {
      const std::span<Byte> rest = pieces_[piece_].subspan(at_);
      const size_t run = std::min(rest.size(), bytes - done);
      copy(rest.first(run), done);
      done += run;
      at_ += run;
      if (at_ == pieces_[piece_].size()) {
        ++piece_;
        at_ = 0;
      }
    }
  }

 private:
  const std::span<const std::span<Byte>> pieces_;
  size_t piece_ = 0, at_ = 0;
};

template <typename Byte>
size_t total(std::span<const std::span<Byte>> pieces) {
  size_t bytes = 0;
  for (const auto& piece : pieces) bytes += piece.size();
  return bytes;
}

}  // namespace

std::string_view packing_name(Packing packing) {
  switch (packing) {
    case Packing::kLz4:
      return "lz4";
    case Packing::kZstd:
      return "zstd";
    case Packing::kLz4Frame:
      return "lz4-frame";
    case Packing::kNone:
      break;
  }
  return "none";
}

size_t packed_bytes_max(size_t bytes, size_t planes) {
  return bytes + parts_of(bytes) * (planes + 1) * kLengthBytes;
}

// A part: for each plane, and for what is left when the bytes are no whole elements, the length of its code
// (its own length: it is left as it is); then the codes.
void pack(Packing packing, size_t planes, std::span<const std::span<const std::byte>> pieces,
          PooledArray<std::byte>& out) {
  BF_CHECK(packing != Packing::kNone && planes >= 1 && planes <= kPlanesMax) << planes << " planes";
  const size_t bytes = total(pieces);
  out.resize(packed_bytes_max(bytes, planes));
  PooledArray<std::byte> plain(std::min(bytes, kPart)), sorted(plain.size());
  PieceCursor<const std::byte> cursor(pieces);
  size_t at = 0;
  for (size_t begin = 0; begin < bytes; begin += kPart) {
    const size_t part = std::min(kPart, bytes - begin), count = part / planes;
    cursor.next(part, [&](std::span<const std::byte> run, size_t to) {
      std::memcpy(plain.data() + to, run.data(), run.size());
    });
    sort_planes(plain.data(), planes, count, sorted.data());
    std::memcpy(sorted.data() + planes * count, plain.data() + planes * count, part - planes * count);
    size_t lengths = at;
    at += (planes + 1) * kLengthBytes;
    for (size_t p = 0; p <= planes; ++p) {
      const std::span<const std::byte> plane(sorted.data() + p * count,
                                             p < planes ? count : part - planes * count);
      size_t length = plane.size() < 2 ? 0 : compress(packing, plane, {out.data() + at, plane.size()});
      if (length == 0) {
        length = plane.size();
        if (length > 0) std::memcpy(out.data() + at, plane.data(), length);
      }
      const auto word = static_cast<uint32_t>(length);
      std::memcpy(out.data() + lengths, &word, kLengthBytes);
      lengths += kLengthBytes;
      at += length;
    }
  }
  out.resize(at);
}

Status unpack(Packing packing, size_t planes, std::span<const std::byte> code,
              std::span<const std::span<std::byte>> pieces) {
  BF_CHECK(packing != Packing::kNone && planes >= 1 && planes <= kPlanesMax) << planes << " planes";
  const size_t bytes = total(pieces);
  PooledArray<std::byte> plain(std::min(bytes, kPart)), sorted(plain.size());
  PieceCursor<std::byte> cursor(pieces);
  size_t at = 0;
  const auto wrong = [&](std::string_view what) {
    return Status{Errc::kCorrupt, fmt::format("packed values: {} at byte {} of {}, for {} bytes", what, at,
                                              code.size(), bytes)};
  };
  for (size_t begin = 0; begin < bytes; begin += kPart) {
    const size_t part = std::min(kPart, bytes - begin), count = part / planes;
    size_t lengths = at;
    if (code.size() - at < (planes + 1) * kLengthBytes) return wrong("no lengths");
    at += (planes + 1) * kLengthBytes;
    for (size_t p = 0; p <= planes; ++p) {
      const std::span<std::byte> plane(sorted.data() + p * count, p < planes ? count : part - planes * count);
      uint32_t length = 0;
      std::memcpy(&length, code.data() + lengths, kLengthBytes);
      lengths += kLengthBytes;
      if (length > plane.size() || length > code.size() - at || (length == 0 && !plane.empty()))
        return wrong(fmt::format("a plane of {} bytes in {}", plane.size(), length));
      const std::span<const std::byte> from = code.subspan(at, length);
      if (length == plane.size()) {
        if (length > 0) std::memcpy(plane.data(), from.data(), length);
      } else if (!decompress(packing, from, plane)) {
        return wrong("damaged code");
      }
      at += length;
    }
    join_planes(sorted.data(), planes, count, plain.data());
    std::memcpy(plain.data() + planes * count, sorted.data() + planes * count, part - planes * count);
    cursor.next(part, [&](std::span<std::byte> run, size_t from) {
      std::memcpy(run.data(), plain.data() + from, run.size());
    });
  }
  return at == code.size() ? Status() : wrong("bytes that belong to nothing");
}

}  // namespace butterfly::cluster
