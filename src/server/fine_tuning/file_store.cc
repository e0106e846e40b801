#include "server/fine_tuning/file_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/file_io.h"
#include "base/file_text.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/private_folder.h"
#include "base/secret.h"
#include "base/units.h"
#include "base/utf8.h"
#include "server/api/api_error.h"
#include "server/api/json.h"

namespace butterfly::server {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNameMax = 200;

// What a name is shown as: no control characters, not too long.
std::string shown_name(const std::string& name) {
  std::string shown;
  for (const char c : name.substr(name.find_last_of("/\\") + 1))
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) shown += c;
  if (shown.size() > kNameMax) shown.resize(kNameMax);
  return shown.empty() ? "file" : utf8_replace_invalid(shown);
}

std::string ending_of(const std::string& name) { return name.ends_with(".csv") ? ".csv" : ".jsonl"; }

StoredFile read_head(const fs::path& path) {
  const Json json = json_of_text<Json>(read_text_file(path));
  StoredFile file{.id = json.at("id"),
                  .filename = json.at("filename"),
                  .purpose = json.at("purpose"),
                  .bytes = json.at("bytes"),
                  .created_at = json.at("created_at"),
                  .path = {}};
  if (file.id + ".json" != path.filename().string()) fail(Errc::kCorrupt, "is not {}", file.id);
  file.path = path.parent_path() / (file.id + ending_of(file.filename));
  if (fs::file_size(file.path) != file.bytes)
    fail(Errc::kCorrupt, "{} has {} bytes, expected {}", file.path.string(), fs::file_size(file.path),
         file.bytes);
  return file;
}

}  // namespace

FileStore::FileStore(FileStoreOptions options) : options_(std::move(options)) {
  make_private_folder(options_.folder);
  for (const fs::directory_entry& entry : fs::directory_iterator(options_.folder)) {
    const std::string name = entry.path().filename().string();
    uint64_t owner = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), owner, 16);
    if (error == std::errc() && end == name.data() + name.size() && entry.is_directory())
      read_folder(entry.path(), owner);
  }
}

void FileStore::read_folder(const fs::path& folder, uint64_t owner) {
  std::vector<StoredFile>& files = files_[owner];
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    try {
      files.push_back(read_head(entry.path()));
    } catch (const std::exception& error) {
      log_warn("{}: left out: {}", entry.path().string(), error.what());
    }
  }
  std::ranges::sort(files, {}, [](const StoredFile& file) { return std::pair(file.created_at, file.id); });
}

StoredFile FileStore::add(uint64_t owner, const std::string& filename, const std::string& purpose,
                          std::string_view content) {
  StoredFile file{.id = "file-" + random_hex(24),
                  .filename = shown_name(filename),
                  .purpose = purpose,
                  .bytes = content.size(),
                  .created_at = unix_seconds(),
                  .path = {}};
  const fs::path folder = options_.folder / fmt::format("{:016x}", owner);
  file.path = folder / (file.id + ending_of(file.filename));
  const std::lock_guard lock(mutex_);
  std::vector<StoredFile>& files = files_[owner];
  uint64_t bytes = content.size();
  for (const StoredFile& other : files) bytes += other.bytes;
  if (files.size() >= options_.owner_files_max || bytes > options_.owner_bytes_max)
    throw ApiError(
        413, "invalid_request_error",
        fmt::format("your files would be {} in {}, at most {} in {} are kept; delete some", files.size() + 1,
                    format_bytes(bytes), options_.owner_files_max, format_bytes(options_.owner_bytes_max)),
        "file");
  fs::create_directories(folder);
  const std::string head = json_text(Json{{"id", file.id},
                                          {"filename", file.filename},
                                          {"purpose", file.purpose},
                                          {"bytes", file.bytes},
                                          {"created_at", file.created_at}});
  replace_file(file.path, content).or_throw();
  replace_file(folder / (file.id + ".json"), head).or_throw();
  files.push_back(file);
  return file;
}

std::vector<StoredFile> FileStore::list(uint64_t owner) const {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(owner);
  if (found == files_.end()) return {};
  return {found->second.rbegin(), found->second.rend()};
}

StoredFile FileStore::find(uint64_t owner, const std::string& id) const {
  const std::lock_guard lock(mutex_);
  if (const auto files = files_.find(owner); files != files_.end())
    for (const StoredFile& file : files->second)
      if (file.id == id) return file;
  throw ApiError(404, "invalid_request_error", fmt::format("No such File object: {:.100}", id), "id");
}

void FileStore::remove(uint64_t owner, const std::string& id) {
  const StoredFile file = find(owner, id);
  const std::lock_guard lock(mutex_);
  std::erase_if(files_[owner], [&](const StoredFile& other) { return other.id == id; });
  std::error_code ignored;
  fs::remove(file.path.parent_path() / (file.id + ".json"), ignored);
  fs::remove(file.path, ignored);
}

}  // namespace butterfly::server
