// Files that clients uploaded, on disk, each key's apart from the others'.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace butterfly::server {

struct StoredFile {
  std::string id;        // "file-" and 24 digits
  std::string filename;  // as its owner calls it: only shown
  std::string purpose;
  uint64_t bytes = 0;
  int64_t created_at = 0;      // seconds since 1970
  std::filesystem::path path;  // ends with .jsonl or .csv, as the name did
};

struct FileStoreOptions {
  std::filesystem::path folder;                  // only this user's
  uint64_t owner_bytes_max = uint64_t{1} << 30;  // of one key
  size_t owner_files_max = 1000;
};

// Thread-safe. A file is whole or not there; what cannot be read at the start is left where it is, with a
// word in the log. All calls throw ApiError: 404 for an id that this owner has no file of, 413 beyond the
// bounds.
class FileStore {
 public:
  explicit FileStore(FileStoreOptions options);

  StoredFile add(uint64_t owner, const std::string& filename, const std::string& purpose,
                 std::string_view content);
  std::vector<StoredFile> list(uint64_t owner) const;  // the newest first
  StoredFile find(uint64_t owner, const std::string& id) const;
  void remove(uint64_t owner, const std::string& id);

 private:
  void read_folder(const std::filesystem::path& folder, uint64_t owner);

  const FileStoreOptions options_;
  mutable std::mutex mutex_;
  std::map<uint64_t, std::vector<StoredFile>> files_;  // by owner, the oldest first
};

}  // namespace butterfly::server
