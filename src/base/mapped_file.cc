#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "base/sigbus_guard.h"

namespace butterfly {
namespace {

// Closes on every way out of open().
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

uintptr_t page_bytes() {
  static const auto bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

void* map_file(const std::filesystem::path& path, int fd, size_t size) {
  void* data = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED)
    fail(Errc::kIo, "{}: cannot map {} bytes: {}", path.string(), size, std::strerror(errno));
  return data;
}

// Anonymous memory with the file's bytes. It is mapped too, so that both kinds are freed alike.
void* read_file(const std::filesystem::path& path, int fd, size_t size) {
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    fail(Errc::kOutOfMemory, "{}: no memory to read {} bytes: {}", path.string(), size, std::strerror(errno));
  size_t done = 0;
  while (done < size) {
    const ssize_t got = pread(fd, static_cast<char*>(data) + done, size - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      const std::string reason = got < 0 ? std::strerror(errno) : "the file ends there";
      munmap(data, size);
      fail(Errc::kIo, "{}: cannot read byte {} of {}: {}", path.string(), done, size, reason);
    }
    done += static_cast<size_t>(got);
  }
  mprotect(data, size, PROT_READ);
  return data;
}

}  // namespace

std::shared_ptr<MappedFile> MappedFile::open(const std::filesystem::path& path, FileAccess access) {
  // O_NONBLOCK: opening a FIFO would otherwise wait for a writer before we can say that it is not a regular
  // file.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) {
    const Errc code = errno == ENOENT || errno == ENOTDIR ? Errc::kNotFound : Errc::kIo;
    fail(code, "{}: cannot open: {}", path.string(), std::strerror(errno));
  }
  struct stat info {};
  if (fstat(file.fd, &info) != 0) fail(Errc::kIo, "{}: cannot stat: {}", path.string(), std::strerror(errno));
  if (!S_ISREG(info.st_mode))
    fail(Errc::kIo, "{}: not a regular file but {}", path.string(),
         S_ISDIR(info.st_mode)    ? "a directory"
         : S_ISFIFO(info.st_mode) ? "a pipe"
                                  : "a device or socket");

  std::shared_ptr<MappedFile> mapped(new MappedFile);
  mapped->path_ = path;
  mapped->access_ = access;
  if (info.st_size == 0) return mapped;
  const auto size = static_cast<size_t>(info.st_size);
  const bool map = access == FileAccess::kMap;
  void* data = map ? map_file(path, file.fd, size) : read_file(path, file.fd, size);
  mapped->data_ = static_cast<const std::byte*>(data);
  mapped->size_ = size;
  if (map && !sigbus::add_mapping(mapped->data_, size, path.c_str()))
    fail(Errc::kIo, "{}: {} files are mapped already, no more are possible", path.string(),
         sigbus::kMappingsMax);
  return mapped;
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  if (access_ == FileAccess::kMap) sigbus::remove_mapping(data_);
  munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::guard(FunctionRef<void()> fn) { sigbus::guard(fn); }

void MappedFile::will_need(size_t offset, size_t size) const {
  BF_CHECK(offset <= size_ && size <= size_ - offset)
      << path_ << ": " << offset << " + " << size << " of " << size_;
  if (size == 0 || access_ == FileAccess::kRead) return;
  const auto begin = reinterpret_cast<uintptr_t>(data_ + offset) & ~(page_bytes() - 1);
  const auto end = reinterpret_cast<uintptr_t>(data_ + offset + size);
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_WILLNEED);
}

void MappedFile::done_with(size_t offset, size_t size) const {
  BF_CHECK(offset <= size_ && size <= size_ - offset)
      << path_ << ": " << offset << " + " << size << " of " << size_;
  if (access_ == FileAccess::kRead) return;  // anonymous pages would come back as zeros
  // Only whole pages inside the range: its neighbours may still be in use.
  const auto begin = (reinterpret_cast<uintptr_t>(data_ + offset) + page_bytes() - 1) & ~(page_bytes() - 1);
  auto end = reinterpret_cast<uintptr_t>(data_ + offset + size);
  if (offset + size < size_) end &= ~(page_bytes() - 1);
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

std::string text_of_file(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  std::string text;
  MappedFile::guard(
      [&] { text.assign(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()); });
  return text;
}

}  // namespace butterfly
