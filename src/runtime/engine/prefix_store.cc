#include "runtime/engine/prefix_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "base/file_io.h"
#include "base/hex.h"
#include "base/log.h"
#include "base/private_folder.h"
#include "runtime/engine/chain.h"

namespace butterfly::runtime {
namespace {

namespace fs = std::filesystem;
using graph::PageKind;

constexpr std::string_view kMagic = "BFPREFIX";
constexpr uint32_t kVersion = 1;
constexpr std::string_view kEnding = ".page";
constexpr size_t kEntriesMax = size_t{1} << 20;  // files that are looked at
constexpr uint32_t kFullPart = 1u << static_cast<size_t>(PageKind::kFull);
constexpr uint32_t kAllParts = (1u << graph::kPageKinds) - 1;
static_assert(std::endian::native == std::endian::little);  // files are written as memory is

template <typename T>
void put(std::vector<std::byte>& out, const T& value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof(T));
}

// "<64 digits>-<parts>.page"
bool read_name(const std::string& text, Sha256& name, uint32_t& parts) {
  constexpr size_t kDigits = 2 * sizeof(Sha256);
  if (text.size() != kDigits + 2 + kEnding.size() || text[kDigits] != '-' || !text.ends_with(kEnding))
    return false;
  if (!from_hex(std::string_view(text).substr(0, kDigits), name)) return false;
  parts = static_cast<uint32_t>(text[kDigits + 1] - '0');
  return parts <= kAllParts && (parts & kFullPart) != 0;
}

}  // namespace

PrefixStore::PrefixStore(PrefixStoreOptions options, const Sizes& sizes)
    : options_(std::move(options)), sizes_(sizes) {
  make_private_folder(options_.folder);
  scan();
}

// Oldest first, so that uses are numbered as they were. Whatever else lies there is left alone.
void PrefixStore::scan() {
  struct Found {
    int64_t time;
    Name name;
    Entry entry;
  };
  std::vector<Found> found;
  std::error_code error;
  for (fs::directory_iterator it(options_.folder, error), end; it != end && !error; it.increment(error)) {
    Found file{};
    struct stat about {};
    if (!read_name(it->path().filename().string(), file.name, file.entry.parts)) continue;
    if (::lstat(it->path().c_str(), &about) != 0 || !S_ISREG(about.st_mode) || about.st_size < 0) continue;
    file.entry.bytes = static_cast<uint64_t>(about.st_size);
    file.time = nanoseconds(about.st_mtim);
    found.push_back(file);
    if (found.size() >= kEntriesMax) break;
  }
  std::ranges::sort(found, {}, &Found::time);
  for (Found& file : found) {
    const auto [entry, is_new] = entries_.try_emplace(file.name, file.entry);
    if (!is_new) {  // the same page with other parts: the later one counts
      bytes_ -= entry->second.bytes;
      fs::remove(path_of(file.name, entry->second.parts), error);
      entry->second = file.entry;
    }
    entry->second.used = next_use_++;
    bytes_ += file.entry.bytes;
  }
  const std::lock_guard lock(mutex_);
  make_room(0, next_use_);
}

PrefixStore::Name PrefixStore::root(uint64_t owner, const std::string& adapter) const {
  std::vector<std::byte> text;
  for (const char c : options_.identity + adapter) text.push_back(static_cast<std::byte>(c));
  put(text, owner);
  return sha256(text);
}

PrefixStore::Name PrefixStore::next(const Name& before, std::span<const int32_t> tokens) {
  std::vector<std::byte> text;
  text.reserve(before.size() + tokens.size_bytes());
  put(text, before);
  const auto bytes = std::as_bytes(tokens);
  text.insert(text.end(), bytes.begin(), bytes.end());
  return sha256(text);
}

uint32_t PrefixStore::parts(const Name& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(name);
  return found == entries_.end() ? 0 : found->second.parts;
}

size_t PrefixStore::count(uint64_t owner, std::span<const int32_t> tokens, size_t page_positions,
                          size_t pages_max) const {
  Name name = root(owner);
  size_t pages = 0;
  for (; pages < std::min(pages_max, tokens.size() / page_positions); ++pages) {
    name = next(name, tokens.subspan(pages * page_positions, page_positions));
    if (parts(name) == 0) break;
  }
  return pages;
}

size_t PrefixStore::usable(const Name& root, std::span<const int32_t> tokens, size_t page_positions,
                           size_t pages_max, size_t window) const {
  const auto wants = [&](PageKind kind) { return sizes_[static_cast<size_t>(kind)] > 0; };
  const auto has = [](uint32_t parts, PageKind kind) {
    return (parts >> static_cast<size_t>(kind) & 1) != 0;
  };
  Name name = root;
  size_t last = 0, windowed = 0;  // pages up to here, without a gap, that have their window
  for (size_t page = 0; page < std::min(pages_max, tokens.size() / page_positions); ++page) {
    name = next(name, tokens.subspan(page * page_positions, page_positions));
    const uint32_t found = parts(name);
    if (found == 0) break;
    windowed = has(found, PageKind::kWindow) ? windowed + 1 : 0;
    const size_t end = page + 1;
    if (wants(PageKind::kState) && !has(found, PageKind::kState)) continue;
    if (wants(PageKind::kWindow) &&
        windowed < end - first_block_in_window(end * page_positions, window, page_positions))
      continue;
    last = end;
  }
  return last;
}

fs::path PrefixStore::path_of(const Name& name, uint32_t parts) const {
  return options_.folder / fmt::format("{}-{}{}", to_hex(name), parts, kEnding);
}

std::vector<std::byte> PrefixStore::head(const Name& name, std::span<const int32_t> tokens,
                                         uint32_t parts) const {
  std::vector<std::byte> out;
  for (const char c : kMagic) out.push_back(static_cast<std::byte>(c));
  put(out, kVersion);
  put(out, parts);
  put(out, name);
  put(out, static_cast<uint64_t>(tokens.size()));
  const auto bytes = std::as_bytes(tokens);
  out.insert(out.end(), bytes.begin(), bytes.end());
  return out;
}

size_t PrefixStore::file_bytes(size_t tokens, uint32_t parts) const {
  size_t bytes = kMagic.size() + 2 * sizeof(uint32_t) + sizeof(Name) + sizeof(uint64_t) +
                 tokens * sizeof(int32_t) + sizeof(Sha256);
  for (size_t kind = 0; kind < sizes_.size(); ++kind)
    if ((parts >> kind & 1) != 0) bytes += sizes_[kind];
  return bytes;
}

std::span<const std::byte> PrefixStore::Page::part(PageKind kind, const Sizes& sizes) const {
  size_t at = 0;
  for (size_t i = 0; i < static_cast<size_t>(kind); ++i)
    if ((parts >> i & 1) != 0) at += sizes[i];
  return std::span(bytes).subspan(at, sizes[static_cast<size_t>(kind)]);
}

void PrefixStore::remove(const Name& name) {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return;
  std::error_code ignored;
  fs::remove(path_of(name, found->second.parts), ignored);
  bytes_ -= found->second.bytes;
  entries_.erase(found);
}

// The time of a file says in which order files were used, for the next process; the system's own is too
// coarse for that.
void PrefixStore::touch(const Name& name, Entry& entry) {
  entry.used = next_use_++;
  const int64_t now = std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
  last_time_ = std::max(last_time_ + 1, now);
  timespec time{};
  time.tv_sec = last_time_ / 1'000'000'000;
  time.tv_nsec = last_time_ % 1'000'000'000;
  const timespec times[2] = {time, time};
  ::utimensat(AT_FDCWD, path_of(name, entry.parts).c_str(), times, AT_SYMLINK_NOFOLLOW);
}

void PrefixStore::used(std::span<const Name> text) {
  const std::lock_guard lock(mutex_);
  for (size_t i = text.size(); i > 0; --i)
    if (const auto found = entries_.find(text[i - 1]); found != entries_.end())
      touch(found->first, found->second);
}

bool PrefixStore::make_room(uint64_t bytes, uint64_t since) {
  if (bytes_ + bytes <= options_.bytes_max) return true;
  std::vector<std::pair<uint64_t, Name>> old;
  for (const auto& [name, entry] : entries_)
    if (entry.used < since) old.emplace_back(entry.used, name);
  std::ranges::sort(old);
  // A tenth more than is needed: the list is not made for each page.
  const uint64_t wanted = options_.bytes_max - std::min(options_.bytes_max, bytes + options_.bytes_max / 10);
  for (const auto& [used, name] : old) {
    if (bytes_ <= wanted) break;
    remove(name);
  }
  return bytes_ + bytes <= options_.bytes_max;
}

Result<PrefixStore::Page> PrefixStore::load(const Name& name, std::span<const int32_t> tokens) {
  const uint32_t has = parts(name);
  if (has == 0) return Status(Errc::kNotFound, "no such page");
  const auto give_up = [&](Status status) {
    log_warn("{}", status.text());
    const std::lock_guard lock(mutex_);
    remove(name);
    return status;
  };
  const fs::path path = path_of(name, has);
  // The first kind may have no bytes: then all layers see windows, and its pages only say which text it is.
  for (size_t kind = 1; kind < sizes_.size(); ++kind)
    if ((has >> kind & 1) != 0 && sizes_[kind] == 0)
      return give_up({Errc::kCorrupt, fmt::format("{}: has a part that this model has not", path.string())});
  const FileHandle file(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  struct stat about {};
  if (!file.open() || ::fstat(file.fd(), &about) != 0) return give_up(file.failed("open"));
  const size_t expected = file_bytes(tokens.size(), has);
  if (!S_ISREG(about.st_mode) || static_cast<uint64_t>(about.st_size) != expected)
    return give_up({Errc::kCorrupt, fmt::format("{}: {} bytes, expected a file of {}", path.string(),
                                                about.st_size, expected)});
  std::vector<std::byte> all(expected);
  if (Status status = file.read_at(0, all); !status) return give_up(status);
  const std::vector<std::byte> wanted = head(name, tokens, has);
  const auto content = std::span(all).first(expected - sizeof(Sha256));
  const Sha256 hash = sha256(content);
  if (!std::ranges::equal(std::span(all).first(wanted.size()), wanted) ||
      std::memcmp(hash.data(), all.data() + content.size(), sizeof(Sha256)) != 0)
    return give_up({Errc::kCorrupt, fmt::format("{}: is not what its name says", path.string())});
  all.resize(content.size());
  all.erase(all.begin(), all.begin() + static_cast<ptrdiff_t>(wanted.size()));
  return Page{has, std::move(all)};
}

Status PrefixStore::save(const Name& name, std::span<const int32_t> tokens, const Page& page,
                         uint64_t since) {
  std::vector<std::byte> all = head(name, tokens, page.parts);
  all.insert(all.end(), page.bytes.begin(), page.bytes.end());
  const Sha256 hash = sha256(all);
  put(all, hash);
  BF_CHECK(all.size() == file_bytes(tokens.size(), page.parts))
      << "a page of " << page.bytes.size() << " bytes";
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(name);
    if (found != entries_.end() && (found->second.parts & page.parts) == page.parts) {
      touch(name, found->second);
      return {};
    }
    remove(name);
    if (!make_room(all.size(), since))
      return {Errc::kQueueFull, fmt::format("{}: {} bytes are kept, at most {} are allowed",
                                            options_.folder.string(), bytes_, options_.bytes_max)};
  }
  const fs::path path = path_of(name, page.parts), part = path.string() + fmt::format(".{}", ::getpid());
  std::error_code error;
  {
    const FileHandle file(part, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);
    if (!file.open()) return file.failed("create");
    if (Status status = file.write_at(0, all); !status) {
      fs::remove(part, error);
      return status;
    }
  }
  fs::rename(part, path, error);
  if (error) {
    fs::remove(part, error);
    return {Errc::kIo, fmt::format("{}: {}", path.string(), error.message())};
  }
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[name];
  entry = {page.parts, all.size(), 0};
  touch(name, entry);
  bytes_ += all.size();
  return {};
}

uint64_t PrefixStore::now() const {
  const std::lock_guard lock(mutex_);
  return next_use_;
}

uint64_t PrefixStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace butterfly::runtime
