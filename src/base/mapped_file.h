// A file as read-only memory.
#pragma once
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/function_ref.h"

namespace butterfly {

// How a file comes into memory.
enum class FileAccess {
  kMap,   // pages are read when they are first touched, and may be dropped again
  kRead,  // all of it at once, for file systems that are slow or unsafe to map
};

// Maps a whole regular file, or reads it. Views into it stay valid while any copy of the shared_ptr lives.
//
// A file that is truncated while mapped makes touched pages raise SIGBUS. Reads inside guard() turn that into
// an Error (kIo) that names the file; the process handles SIGBUS only for addresses of live mappings and
// leaves others alone. Any thread may read it.
class MappedFile {
 public:
  // Throws Error: kNotFound, kIo when it cannot be opened, mapped or read, or is not a regular file,
  // kOutOfMemory when there is no room to read it.
  static std::shared_ptr<MappedFile> open(const std::filesystem::path& path,
                                          FileAccess access = FileAccess::kMap);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

  // Runs fn, which may read any mapped file from this thread. If a page has vanished, leaves fn at once and
  // throws Error kIo that names file and byte. Guards nest, and cost about 10 ns. Each thread needs its own
  // (ThreadPool has them). Leaving is a jump: destructors inside fn do not run, so hold no lock in there
  // while reading mapped bytes.
  static void guard(FunctionRef<void()> fn);

  // Tells the kernel that [offset, offset + size) will be read soon, or will not be needed again. Does
  // nothing for a file that was read.
  void will_need(size_t offset, size_t size) const;
  void done_with(size_t offset, size_t size) const;

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  FileAccess access_ = FileAccess::kMap;
  std::filesystem::path path_;
};

// All of a file, as text. Throws Error as MappedFile::open(), and kIo for one that shrinks meanwhile.
std::string text_of_file(const std::filesystem::path& path);

}  // namespace butterfly
