#include "model/formats/file_sink.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>

#include "base/error.h"

namespace butterfly::model {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

// Unique among the writers of this process and, by the process id, of this machine; O_EXCL settles the rest.
std::string temporary_name(const std::filesystem::path& path) {
  static std::atomic<uint64_t> counter{0};
  return fmt::format("{}.tmp-{}-{}", path.string(), getpid(), counter++);
}

}  // namespace

FileSink::FileSink(std::filesystem::path path) : path_(std::move(path)) {
  temporary_ = temporary_name(path_);
  fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) refuse("create");
  buffer_.reserve(kBufferBytes);
}

FileSink::~FileSink() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(temporary_.c_str());
}

void FileSink::refuse(const char* what) const {
  fail(Errc::kIo, "{}: cannot {} {}: {}", path_.string(), what, temporary_.string(),
       std::generic_category().message(errno));
}

void FileSink::write(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > kBufferBytes) flush();
  if (bytes.size() >= kBufferBytes)
    write_through(bytes);
  else
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void FileSink::write_through(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) refuse("write");
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void FileSink::flush() {
  write_through(buffer_);
  buffer_.clear();
}

void FileSink::commit() {
  flush();
  if (fsync(fd_) != 0) refuse("sync");
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) refuse("rename");
  close(fd_);
  fd_ = -1;
}

}  // namespace butterfly::model
