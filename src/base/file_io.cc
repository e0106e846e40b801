#include "base/file_io.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace butterfly {

FileHandle::FileHandle(const std::filesystem::path& path, int flags, unsigned mode)
    : path_(path), fd_(::open(path.c_str(), flags | O_CLOEXEC, mode)) {}

FileHandle::~FileHandle() {
  if (fd_ >= 0) ::close(fd_);
}

FileHandle::FileHandle(FileHandle&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

FileHandle& FileHandle::operator=(FileHandle&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

Status FileHandle::failed(const char* doing) const {
  const int error = errno;
  return {error == ENOENT ? Errc::kNotFound : Errc::kIo,
          fmt::format("{}: cannot {}: {}", path_.string(), doing, std::strerror(error))};
}

Status FileHandle::read_at(uint64_t offset, std::span<std::byte> into) const {
  for (size_t done = 0; done < into.size();) {
    const ssize_t n = ::pread(fd_, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed("read");
    if (n == 0)
      return {Errc::kIo, fmt::format("{}: ends at byte {}, expected {}", path_.string(), offset + done,
                                     offset + into.size())};
    done += static_cast<size_t>(n);
  }
  return {};
}

Status FileHandle::write_at(uint64_t offset, std::span<const std::byte> bytes) const {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n =
        ::pwrite(fd_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed("write");
    done += static_cast<size_t>(n);
  }
  return {};
}

Status FileHandle::resize(uint64_t bytes) const {
  struct stat about {};
  if (::fstat(fd_, &about) != 0) return failed("look at");
  if (static_cast<uint64_t>(about.st_size) == bytes) return {};
  return ::ftruncate(fd_, static_cast<off_t>(bytes)) == 0 ? Status() : failed("set the size");
}

Status FileHandle::sync() const { return ::fdatasync(fd_) == 0 ? Status() : failed("sync"); }

Result<std::vector<std::byte>> read_small_file(const std::filesystem::path& path, size_t bytes_max) {
  const FileHandle file(path, O_RDONLY);
  if (!file.open()) return file.failed("open");
  struct stat about {};
  if (::fstat(file.fd(), &about) != 0) return file.failed("look at");
  if (!S_ISREG(about.st_mode) || static_cast<uint64_t>(about.st_size) > bytes_max)
    return Status(Errc::kCorrupt, fmt::format("{}: {} bytes, expected a file of at most {}", path.string(),
                                              about.st_size, bytes_max));
  std::vector<std::byte> bytes(static_cast<size_t>(about.st_size));
  if (Status status = file.read_at(0, bytes); !status) return status;
  return bytes;
}

Status replace_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::string draft = path.string() + ".XXXXXX";
  const int fd = ::mkostemp(draft.data(), O_CLOEXEC);
  if (fd < 0) return {Errc::kIo, fmt::format("{}: cannot create: {}", path.string(), std::strerror(errno))};
  ::close(fd);
  Status status;
  {
    const FileHandle file(draft, O_WRONLY);
    if (!file.open()) status = file.failed("open");
    if (status) status = file.write_at(0, bytes);
    if (status) status = file.sync();
  }
  if (status && ::rename(draft.c_str(), path.c_str()) != 0)
    status = {Errc::kIo, fmt::format("{}: cannot rename: {}", path.string(), std::strerror(errno))};
  if (!status) ::unlink(draft.c_str());
  return status;
}

}  // namespace butterfly
