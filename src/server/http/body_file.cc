#include "server/http/body_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/log.h"

namespace butterfly::server {

BodyFile::BodyFile(const std::filesystem::path& folder) {
  std::string name = (folder / "body-XXXXXX").string();
  fd_ = ::mkostemp(name.data(), O_CLOEXEC);  // mode 0600
  if (fd_ < 0) {
    const char* why = std::strerror(errno);
    log_warn("{}: no file can be made there for a long body: {}", folder.string(), why);
    fail(Errc::kIo, "a body of this length cannot be kept now: {}", why);  // a client reads this
  }
  ::unlink(name.c_str());
}

BodyFile::~BodyFile() {
  if (bytes_ != nullptr) ::munmap(const_cast<char*>(bytes_), size_);
  if (fd_ >= 0) ::close(fd_);
}

void BodyFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail(Errc::kIo, "a body of {} bytes so far cannot be kept: {}", size_, std::strerror(errno));
    size_ += static_cast<uint64_t>(n);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

void BodyFile::finish() {
  if (bytes_ != nullptr || size_ == 0) return;
  void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd_, 0);
  if (mapped == MAP_FAILED) fail(Errc::kIo, "a body of {} bytes: {}", size_, std::strerror(errno));
  bytes_ = static_cast<const char*>(mapped);
}

}  // namespace butterfly::server
