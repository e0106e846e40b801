// The bytes of a file that have come so far, hidden beside where it will be; kept from one attempt to the
// next.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/sha256_stream.h"

namespace butterfly::cli {

// Owns the hidden file while it lives: another process that wants it is told so. The bytes are hashed as they
// come, and those that were there before when it is opened. Throws Error kIo (a full disk, say) and
// kInvalidArgument.
class PartFile {
 public:
  // `key`: whatever must be the same for the bytes to be of use.
  PartFile(const std::filesystem::path& to, const std::string& key);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  uint64_t bytes() const { return bytes_; }
  std::string sha256() const { return hash_.hex(); }
  void append(std::span<const char> bytes);
  void clear();  // from the beginning

  // Which version of the file the bytes are of, in the server's words; empty: not known.
  std::string version() const;
  void set_version(const std::string& version);

  void finish();  // becomes `to`
  void drop();    // removes it

 private:
  std::filesystem::path version_path() const { return path_.string() + ".version"; }
  [[noreturn]] void failed(const char* doing) const;

  const std::filesystem::path to_;
  const std::filesystem::path path_;
  int fd_ = -1;
  uint64_t bytes_ = 0;
  Sha256Stream hash_;
};

}  // namespace butterfly::cli
