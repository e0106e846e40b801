// Reads and writes at places of files, whole or with the system's words.
#pragma once
#include <time.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace butterfly {

inline int64_t nanoseconds(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

// A descriptor that closes itself. Reads and writes say where, so several threads may use it at once.
class FileHandle {
 public:
  FileHandle() = default;
  FileHandle(const std::filesystem::path& path, int flags, unsigned mode = 0600);
  ~FileHandle();
  FileHandle(FileHandle&& other) noexcept;
  FileHandle& operator=(FileHandle&& other) noexcept;

  bool open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  const std::filesystem::path& path() const { return path_; }

  // kIo that names the file, the byte and why. A file that ends before is an error too.
  Status read_at(uint64_t offset, std::span<std::byte> into) const;
  Status write_at(uint64_t offset, std::span<const std::byte> bytes) const;
  // Leaves a file that has this size alone: its time of change stays.
  Status resize(uint64_t bytes) const;
  Status sync() const;

  // The error of the last call, in words.
  Status failed(const char* doing) const;

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

// All of a small file; kNotFound, kIo, or kCorrupt when it has more than bytes_max.
Result<std::vector<std::byte>> read_small_file(const std::filesystem::path& path, size_t bytes_max);
// Others see the old file or the whole new one, also after a loss of power.
Status replace_file(const std::filesystem::path& path, std::span<const std::byte> bytes);
inline Status replace_file(const std::filesystem::path& path, std::string_view text) {
  return replace_file(path, std::as_bytes(std::span(text)));
}

}  // namespace butterfly
