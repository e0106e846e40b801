// A body that is too long for memory.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string_view>

namespace butterfly::server {

// Bytes in a file without a name, which is gone with this object or the process. Written by one thread, then
// read by any.
class BodyFile {
 public:
  // In `folder`, which must be there. Throws Error kIo, as append() does when the disk is full.
  explicit BodyFile(const std::filesystem::path& folder);
  ~BodyFile();
  BodyFile(const BodyFile&) = delete;
  BodyFile& operator=(const BodyFile&) = delete;

  void append(std::string_view bytes);
  uint64_t size() const { return size_; }
  // Makes it readable, once, when all is there; throws Error kIo.
  void finish();
  std::string_view view() const { return {bytes_, static_cast<size_t>(size_)}; }  // after finish()

 private:
  int fd_ = -1;
  uint64_t size_ = 0;
  const char* bytes_ = nullptr;
};

}  // namespace butterfly::server
