#include "tensor/file_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace butterfly {
namespace {

thread_local const FileMemoryScope* innermost = nullptr;

}  // namespace

Buffer allocate_in_file(const std::filesystem::path& folder, size_t bytes) {
  if (bytes == 0) return Buffer::adopt(nullptr, 0, {});
  std::filesystem::create_directories(folder);
  std::string name = (folder / "memory-XXXXXX").string();
  const int file = ::mkostemp(name.data(), O_CLOEXEC);
  if (file < 0) fail(Errc::kIo, "{}: {}", name, std::strerror(errno));
  ::unlink(name.c_str());
  // With its blocks: a disk that is full later would be a signal in the middle of a sum.
  const int full = ::posix_fallocate(file, 0, static_cast<off_t>(bytes));
  void* const data =
      full != 0 ? MAP_FAILED : ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const int error = full != 0 ? full : errno;
  ::close(file);
  if (data == MAP_FAILED)
    fail(Errc::kIo, "{}: no room for {} bytes of a run's state: {}", folder.string(), bytes,
         std::strerror(error));
  return Buffer::adopt(static_cast<std::byte*>(data), bytes, [bytes](std::byte* at) { ::munmap(at, bytes); });
}

FileMemoryScope::FileMemoryScope(std::filesystem::path folder)
    : folder_(std::move(folder)), outer_(std::exchange(innermost, this)) {}

FileMemoryScope::~FileMemoryScope() { innermost = outer_; }

const std::filesystem::path* FileMemoryScope::folder() {
  return innermost == nullptr ? nullptr : &innermost->folder_;
}

}  // namespace butterfly
