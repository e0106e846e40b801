// Where a node keeps its key, certificates, tokens and lists: one folder that only its owner may read.
#pragma once
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace butterfly::cluster {

// Where a node keeps keys, certificates and what it was told. Files are written whole: after a crash there is
// the old or the new one, never a part. Several threads and processes may use one folder; whoever reads,
// changes and writes a file holds a Lock meanwhile. Throws Error kIo where the system refuses.
class StateFolder {
 public:
  // Makes the folder (0700) and its parents. kInvalidArgument when it is there and others may use it.
  static StateFolder make(const std::filesystem::path& path);
  // kNotFound when it is not there.
  static StateFolder open(const std::filesystem::path& path);
  // $BUTTERFLY_STATE, else butterfly/ below $XDG_STATE_HOME, else ~/.local/state/butterfly.
  static std::filesystem::path default_path();

  const std::filesystem::path& path() const { return path_; }
  bool has(std::string_view name) const;
  // kNotFound when it is not there; kInvalidArgument when others may read or write it, kCorrupt above
  // `bytes_max`.
  std::string read(std::string_view name, size_t bytes_max = 1u << 20) const;
  // Replaces the file, 0600, on disk when this returns.
  void write(std::string_view name, std::string_view contents) const;
  void remove(std::string_view name) const;

  // Held by one process (and one thread of it) at a time. Waits for at most five seconds: kTimeout.
  class Lock {
   public:
    explicit Lock(const StateFolder& folder);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    int fd_ = -1;
  };

 private:
  explicit StateFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

}  // namespace butterfly::cluster
