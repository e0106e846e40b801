#include "cli/download/part_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "base/error.h"
#include "base/sha256.h"

namespace butterfly::cli {

namespace fs = std::filesystem;

PartFile::PartFile(const fs::path& to, const std::string& key)
    : to_(to), path_(to.parent_path() / fmt::format(".pull-{}.part", sha256_hex(key).substr(0, 24))) {
  std::error_code error;
  fs::create_directories(to.parent_path(), error);
  if (error) fail(Errc::kIo, "{}: cannot make the folder: {}", to.parent_path().string(), error.message());
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd_ < 0) failed("open");
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    ::close(fd_);
    fail(Errc::kInvalidArgument, "{}: another 'butterfly pull' fetches it at this moment", to.string());
  }
  std::vector<char> block(1 << 20);
  for (ssize_t n; (n = ::read(fd_, block.data(), block.size())) != 0;) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) failed("read");
    hash_.add(std::as_bytes(std::span(block).first(static_cast<size_t>(n))));
    bytes_ += static_cast<uint64_t>(n);
  }
}

PartFile::~PartFile() {
  if (fd_ >= 0) ::close(fd_);
  std::error_code ignored;
  if (bytes_ == 0 && fd_ >= 0) drop();
}

void PartFile::failed(const char* doing) const {
  const int error = errno;
  fail(Errc::kIo, "{}: cannot {}: {}{}", path_.string(), doing, std::strerror(error),
       error == ENOSPC ? "; make room (butterfly rm, df -h) and start again: it goes on from here" : "");
}

void PartFile::append(std::span<const char> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) failed("write");
    const std::span<const char> written = bytes.first(static_cast<size_t>(n));
    hash_.add(std::as_bytes(written));
    bytes_ += written.size();
    bytes = bytes.subspan(written.size());
  }
}

void PartFile::clear() {
  if (::ftruncate(fd_, 0) != 0 || ::lseek(fd_, 0, SEEK_SET) != 0) failed("empty");
  bytes_ = 0;
  hash_ = Sha256Stream();
}

std::string PartFile::version() const {
  std::ifstream in(version_path());
  std::string line;
  std::getline(in, line);
  return line;
}

void PartFile::set_version(const std::string& version) {
  std::ofstream out(version_path(), std::ios::trunc);
  out << version << "\n";
}

void PartFile::finish() {
  if (::fsync(fd_) != 0) failed("write");
  if (::rename(path_.c_str(), to_.c_str()) != 0) failed("rename");
  std::error_code ignored;
  fs::remove(version_path(), ignored);
  ::close(fd_);
  fd_ = -1;
}

void PartFile::drop() {
  std::error_code ignored;
  fs::remove(path_, ignored);
  fs::remove(version_path(), ignored);
}

}  // namespace butterfly::cli
